"""What scripts/schemathesis needs beside the description: bodies that are not JSON, things that must stay, and the
refusals that follow from what is stored or from two fields together, which JSON Schema cannot say."""
import os

import schemathesis
from schemathesis.specs.openapi.checks import positive_data_acceptance

# What the script made for the other operations to find. Deleting it would turn the rest of the run into 404s.
KEPT = {"project": "default", "session": "probe", "memory": "probe", "board": "probe", "agent": "probe",
        "policy": "probe", "tenant": "default", "key": os.environ["MNEME_KEY"].split("_")[1]}

# Codes of requests that fit the description and are refused nevertheless.
DEPENDS = {
    "idempotency_key_reused": "the key was used before",
    "unknown_policy": "no policy has the name", "unknown_version": "the policy has no such version",
    "invalid_config": "the policy's own schema of its config", "module_refused": "random bytes are no module",
    "invalid_export": "random bytes are no export", "body_missing": "an empty text is no module and no export",
    "invalid_messages": "the rules of three providers' formats, and the calls that are open",
    "budget_too_small": "what must stay exceeds the budget",
    "invalid_turn": "the order of a file's turns", "query_needed": "a query, or a bound in time",
    "core_never_expires": "the category", "too_long": "bounds count bytes, and JSON Schema characters",
    "invalid_cursor": "cursors are a server's own",
    "invalid_tag": "no control characters, of which Unicode has many",
    "namespace_needed": "the project's memory_namespace names an agent or a session that the request does not",
    "hook_missing": "the policies that have the hook", "guard_not_first": "the steps before it",
    "guard_needs_window": "the other settings", "trust_too_high": "the key's role", "source_not_found": "what sessions hold",
    "memory_refused": "the project's policies",
    "invalid_id": "bytes, and no invisible characters, of which Unicode has many",
}
# The same for codes that can mean a fault of the description, too: only these fields of them.
DEPENDS_FIELDS = {
    ("out_of_range", "expires_at"), ("out_of_range", "up_to"), ("out_of_range", "until"),
    ("out_of_range", "summary_keep_last"), ("out_of_range", "summary.covers"),
    ("out_of_range", "summary.covers_messages"), ("out_of_range", "summary.covers_turns"),
    ("out_of_range", "at_turn"), ("out_of_range", "to_turn"), ("out_of_range", "rewind_to"),
    ("out_of_range", "as_of.turn"), ("out_of_range", "step"), ("required", "decision_id"), ("invalid_value", "tools"),
    ("out_of_range", "from"), ("out_of_range", "to"), ("required", "project_id"), ("required", "key"),
    ("invalid_value", "a"), ("invalid_value", "b"), ("invalid_value", "transcript"), ("invalid_value", "fields"),
    ("out_of_range", "limit"), ("invalid_value", "sort"),  # where fields are asked for, and without words
    ("invalid_value", "key"),  # of a PUT, where it is not the path's
    ("invalid_value", "category"),  # null in a merge patch, which clears a field
    ("invalid_value", "X-Mneme-Memory-Namespace"),  # no control characters in a part
    ("invalid_value", "memory_namespace"),
    ("invalid_value", "viewer.result_tokens"),  # only with a delegation_id
    ("invalid_value", "viewer.whole"),  # or alone
    ("out_of_range", "history_low_water"),  # -1 or from 0.1 on
    ("invalid_value", "token_scale"),  # multipleOf is no good for fractions
    ("required", "messages"), ("invalid_value", "q"), ("invalid_value", "tags"), ("invalid_value", "source"),
    ("required", "filter"), ("blank", "content"), ("too_long", "namespace"), ("invalid_value", "namespace"),
    ("invalid_value", "metadata"), ("too_many", "metadata"), ("invalid_value", "value"), ("too_many", "value"),
    ("out_of_range", "sources"),  # in the message's text
    ("required", "hook"),  # where there is a candidate, a query, memories or an answer
    ("invalid_value", "admit_pipeline"),  # no guards
    ("invalid_value", "on_error"),  # none for a guard
    ("out_of_range", "min_score"), ("out_of_range", "occurred_at"),
}


# Rules that the description states in words, because generators of clients fail on values of several types.
WORDED = {
    "MemorySpec": {"anyOf": [
        {"required": ["content"], "properties": {"content": {"type": "string", "pattern": "\\S"}}},
        {"required": ["value"], "properties": {"value": {"not": {"type": "null"}}, "content": {"enum": ["", None]}}}]},
    "Metadata": {"additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
    "SystemPrompt": {"anyOf": [
        {"type": "string"}, {"type": "null"},
        {"type": "array", "items": {"type": "object", "required": ["type", "text"], "properties": {
            "type": {"enum": ["text", "input_text"]}, "text": {"type": "string"}}}}]},
    "WindowDiffSide": {"oneOf": [
        {"required": ["decision_id"], "properties": {"decision_id": {"type": "string", "minLength": 1}, "request": {"type": "null"}}},
        {"required": ["request"], "properties": {"request": {"type": "object"}, "decision_id": {"enum": [None, ""]}}}]},
    "SignInRequest": {"oneOf": [
        {"required": ["key"], "properties": {"key": {"type": "string", "minLength": 1}, "link": {"enum": ["", None]}}},
        {"required": ["link"], "properties": {"link": {"type": "string", "minLength": 1}, "key": {"enum": ["", None]}}}]},
    "PolicyRunRequest": {"not": {"anyOf": [
        {"required": ["messages", "transcript"], "properties": {"messages": {"type": "array"}, "transcript": {"type": "object"}}},
        {"required": ["decision_id"], "properties": {"decision_id": {"type": "string", "minLength": 1}}, "anyOf": [
            {"required": [name], "properties": {name: other}} for name, other in {
                "messages": {"type": "array"}, "transcript": {"type": "object"}, "pending": {"type": "array"},
                "viewer": {"type": "object", "minProperties": 1}, "system": {"type": ["string", "array"]},
                "format": {"type": "string", "minLength": 1}, "tool_results": {"type": "string", "minLength": 1},
            }.items()]}]}},
}
DAY_OR_TIME = [{"format": "date-time"}, {"format": "date"}]


# Unsigned numbers of 64 bits, whose maximum is too large for the signed ones of generators.
UNSIGNED = {"if_revision", "before", "of", "asked"}


def reword(node, name=""):
    """Says of each text that is a day or a time that it is one or the other, and how large unsigned numbers may be."""
    if isinstance(node, dict):
        for name in UNSIGNED & node.get("properties", {}).keys():
            if "integer" in node["properties"][name].get("type", ()):
                node["properties"][name].setdefault("maximum", 2**64 - 1)
        if node.get("properties", {}).get("version", {}).get("description") == "64 bits.":
            node["properties"]["version"].update(minimum=-(2**63), maximum=2**63 - 1)
        if node.get("format") == "date-or-date-time":
            del node["format"]
            kinds = node.pop("type", "string")
            node["anyOf"] = [{"type": "string", **kind} for kind in DAY_OR_TIME]
            if name in ("since", "until"):
                node["anyOf"].append({"const": ""})
            if kinds != "string":
                node["anyOf"].append({"type": "null"})
        for key, child in node.items():
            reword(child, key)
    elif isinstance(node, list):
        for child in node:
            reword(child)


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    for name, rule in WORDED.items():
        if name in schemas:
            schemas[name].update(rule)
    session_file = schemas.get("SessionFile")
    if session_file:
        session_file["properties"]["session"] = {"allOf": [session_file["properties"]["session"], {"required": ["id"]}]}
    reword(raw_schema)
    for item in raw_schema["paths"].values():
        for operation in item.values():
            body = operation.get("requestBody")
            if body and not body.get("required"):  # null means the same as no body
                for content in body["content"].values():
                    content["schema"] = {"anyOf": [content["schema"], {"type": "null"}]}


def as_bytes(ctx, value):
    value = getattr(value, "data", value)  # of a text in the format binary
    return {"data": value if isinstance(value, bytes) else str(value).encode()}


for media in ("application/wasm", "application/x-ndjson"):
    schemathesis.serializer(media)(as_bytes)


@schemathesis.hook
def filter_case(context, case):
    path = case.operation.path
    if case.method == "DELETE" or path.endswith("/rotate"):
        last = path.removesuffix("/rotate").rsplit("{", 1)[-1].rstrip("}")
        return str((case.path_parameters or {}).get(last)) != KEPT.get(last)
    return True


@schemathesis.check
def described_data_acceptance(ctx, response, case):
    """positive_data_acceptance, but for what the description cannot say."""
    if case.operation.path == "/mcp" and response.status_code == 400:
        return None  # the protocol has rules of its own, and words its errors itself
    if response.status_code in (410, 412):
        return None  # what the request names was there, and is purged, or is another by now
    if case.operation.path.startswith(("/v1/", "/p/")) and response.status_code == 400:
        return None  # the providers' own descriptions say what their bodies look like
    if case.operation.path.startswith(("/v1/", "/p/")) and response.status_code == 422 and (
            "printable UTF-8" in response.text or "percent sign" in response.text):
        return None  # invalid_id, in a provider's words
    if response.status_code in (400, 413, 422):
        problem = response.json()
        fields = {(e["code"], e.get("field")) for e in problem.get("errors", [])}
        if problem.get("code") in DEPENDS or fields & DEPENDS_FIELDS:
            return None
        if any((field or "").startswith("namespaces") for _, field in fields):
            return None  # the role, and no control characters in a part
        if case.operation.path.endswith("/run") and problem.get("code") in ("required", "invalid_value", "out_of_range"):
            return None  # which fields a run may have depends on its hook
        if any((field or "").startswith(("pipeline[", "admit_pipeline[")) for _, field in fields):
            return None  # steps depend on policies and on each other
        if any((field or "").startswith("upstreams") for _, field in fields):
            return None  # what a URL is, and which hosts the operator allows
    return positive_data_acceptance(ctx, response, case)
