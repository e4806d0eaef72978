package hook

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// The most ops of a kind in one plan.
const (
	MaxStores  = 32
	MaxMerges  = 32
	MaxForgets = 64
)

// What a PATCH may not change of a candidate, and all that it may change of a stored memory.
var (
	fixedOfCandidate = []string{"key", "namespace", "trust", "pinned"}
	variableOfMemory = []string{"tags", "importance", "category", "expires_at", "metadata"}
	messageRoles     = []plan.Role{plan.RoleUser, plan.RoleAssistant, plan.RoleTool}
	opsOfOneRecord   = []plan.OpCode{plan.OpRefuse, plan.OpPatch, plan.OpForget, plan.OpRank}
	// The ops that each hook takes, as in the ABI.
	opsOf = map[plan.Hook][]plan.OpCode{
		plan.HookAdmit:    {plan.OpRefuse, plan.OpPatch, plan.OpMerge},
		plan.HookRemember: {plan.OpReplace, plan.OpStore, plan.OpAsk},
		plan.HookRecall:   {plan.OpDrop, plan.OpRank},
		plan.HookRetain:   {plan.OpPatch, plan.OpMerge, plan.OpForget},
	}
	opsThatNameNobody = []plan.OpCode{plan.OpStore, plan.OpAsk} // they only read their records
)

// maxCode is the maximum length of a reason's code in bytes.
const maxCode = 64

// ReasonCode returns the code of an op's reason, which is all that decisions keep of it: the part before the first
// colon. It returns "" if that is not a code: 1 to 64 of the characters a-z, 0-9 and _.
func ReasonCode(reason string) string {
	code, _, _ := strings.Cut(reason, ":")
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }
	if len(code) > maxCode || strings.ContainsFunc(code, other) {
		return ""
	}
	return code
}

// Check checks a plan against the rules that no policy may break. It returns a *plan.BadPlanError that names the first
// op that breaks one, or nil.
func (t *Table) Check(ops []plan.Op) error {
	_, _, err := t.Apply(0, ops)
	return err
}

// check is Check without the specs that patches give.
func (t *Table) check(ops []plan.Op) error {
	counts, named, stored := map[plan.OpCode]int{}, map[uint32]plan.OpCode{}, map[string]bool{}
	for n := range ops {
		op := &ops[n]
		wrong := t.checkOp(op)
		if wrong == "" {
			wrong = checkNamed(op, named)
		}
		if wrong == "" && op.Code == plan.OpStore {
			wrong = checkStoredTwice(op, stored)
		}
		if wrong == "" && op.Code == plan.OpAsk && len(ops) > 1 {
			wrong = "asks a model in a plan with other ops"
		}
		counts[op.Code]++
		if limit := limitOf(op.Code); wrong == "" && limit > 0 && counts[op.Code] > limit {
			wrong = fmt.Sprintf("is one of more than %d of its kind", limit)
		}
		if wrong != "" {
			return &plan.BadPlanError{Op: n, Detail: wrong}
		}
	}
	return nil
}

// limitOf returns how many ops of a kind a plan may have; 0 means any number.
func limitOf(code plan.OpCode) int {
	switch code {
	case plan.OpStore:
		return MaxStores
	case plan.OpMerge:
		return MaxMerges
	case plan.OpForget:
		return MaxForgets
	}
	return 0
}

// checkNamed returns what is wrong if an op changes a record that another op changes. Only a PATCH and a MERGE may
// change the same one.
func checkNamed(op *plan.Op, named map[uint32]plan.OpCode) string {
	if slices.Contains(opsThatNameNobody, op.Code) {
		return ""
	}
	records := []uint32{op.First, op.Last}
	if op.Code != plan.OpMerge {
		records = records[:0]
		for at := op.First; at <= op.Last; at++ {
			records = append(records, at)
		}
	}
	for _, at := range records {
		other, taken := named[at]
		beside := other == plan.OpPatch && op.Code == plan.OpMerge || other == plan.OpMerge && op.Code == plan.OpPatch
		if taken && !beside {
			return fmt.Sprintf("names record %d, which another op names", at)
		}
		named[at] = op.Code
		if taken {
			named[at] = 0 // both are there, and a third is not possible
		}
	}
	return ""
}

// checkStoredTwice returns what is wrong if two STOREs name the same key.
func checkStoredTwice(op *plan.Op, stored map[string]bool) string {
	key := keyOf(op.Text)
	if key != "" && stored[key] {
		return fmt.Sprintf("stores the key %q, which another op stores", key)
	}
	stored[key] = true
	return ""
}

// keyOf returns the key of a spec as JSON; "" if it has none.
func keyOf(spec string) string {
	var s struct {
		Key string `json:"key"`
	}
	if json.Unmarshal([]byte(spec), &s) != nil {
		return ""
	}
	return s.Key
}

// checkOp returns what is wrong with one op, or "".
func (t *Table) checkOp(op *plan.Op) string {
	n := uint32(len(t.Records))
	switch {
	case !slices.Contains(opsOf[t.Hook], op.Code):
		return fmt.Sprintf("is %d, which %s does not take", op.Code, t.Hook)
	case op.First >= n || op.Last >= n:
		return fmt.Sprintf("its records %d and %d are not both inside the %d records", op.First, op.Last, n)
	case op.Code == plan.OpMerge:
		return t.checkMerge(op)
	case op.First > op.Last:
		return fmt.Sprintf("its range %d..%d ends before it begins", op.First, op.Last)
	case op.First != op.Last && slices.Contains(opsOfOneRecord, op.Code):
		return fmt.Sprintf("its range is %d..%d, and it takes one record", op.First, op.Last)
	}
	switch op.Code {
	case plan.OpRefuse:
		return t.checkRefuse(op)
	case plan.OpPatch:
		return t.checkPatch(op)
	case plan.OpStore:
		return t.checkStore(op)
	case plan.OpForget:
		return t.changeable(op.First, "sets aside")
	case plan.OpAsk:
		return t.checkAsk(op)
	case plan.OpRank, plan.OpDrop:
		return t.checkHits(op)
	}
	return "" // a REPLACE may have any text
}

func (t *Table) checkRefuse(op *plan.Op) string {
	switch {
	case op.First != 0:
		return fmt.Sprintf("refuses record %d, which is not the candidate", op.First)
	case t.Records[0].Trust == plan.TrustOperator:
		return "refuses what an operator writes"
	case ReasonCode(op.Reason) == "":
		return fmt.Sprintf("refuses without the code of a reason (a-z, 0-9 and _, at most %d bytes)", maxCode)
	}
	return ""
}

// changeable returns what is wrong if no policy may change a record. doing is what the op does.
func (t *Table) changeable(at uint32, doing string) string {
	switch r := &t.Records[at]; {
	case r.Kind != plan.KindMemory:
		return fmt.Sprintf("%s record %d, which is not a stored memory", doing, at)
	case r.Flags&plan.ExtraPinnedMemory != 0:
		return fmt.Sprintf("%s record %d, which is pinned", doing, at)
	case r.Trust == plan.TrustOperator:
		return fmt.Sprintf("%s record %d, which has the trust operator", doing, at)
	}
	return ""
}

func (t *Table) checkMerge(op *plan.Op) string {
	into, from := &t.Records[op.First], &t.Records[op.Last]
	switch {
	case op.First == op.Last:
		return fmt.Sprintf("merges record %d into itself", op.First)
	case op.Argument > plan.KeepStored:
		return fmt.Sprintf("its argument is %d, not 0 or %d", op.Argument, plan.KeepStored)
	case op.Argument == plan.KeepStored && op.Text != "":
		return fmt.Sprintf("has a text, and its argument %d leaves record %d as it is", op.Argument, op.First)
	case into.Kind != plan.KindMemory:
		return fmt.Sprintf("merges into record %d, which is not a stored memory", op.First)
	case into.Namespace != from.Namespace:
		return fmt.Sprintf("merges record %d into another namespace", op.Last)
	case into.Value != from.Value:
		return fmt.Sprintf("merges record %d into one with another value", op.Last)
	}
	if t.Hook == plan.HookAdmit {
		if op.Last != 0 {
			return fmt.Sprintf("merges record %d, which is not the candidate", op.Last)
		}
		if from.Flags&plan.ExtraClientKey != 0 && from.Key != into.Key {
			return "merges a candidate whose key the client chose into another key"
		}
	} else if wrong := t.changeable(op.Last, "merges"); wrong != "" {
		return wrong
	}
	if op.Argument == plan.KeepStored {
		if from.Trust > into.Trust {
			return fmt.Sprintf("keeps record %d instead of record %d, which is more trusted", op.First, op.Last)
		}
		return ""
	}
	if from.Trust < into.Trust {
		return fmt.Sprintf("changes record %d, which is more trusted than record %d", op.First, op.Last)
	}
	return t.changeable(op.First, "changes")
}

func (t *Table) checkPatch(op *plan.Op) string {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal([]byte(op.Text), &changes); err != nil || changes == nil {
		return "its text is not a JSON object"
	}
	names := slices.Sorted(maps.Keys(changes))
	if t.Hook == plan.HookAdmit {
		if op.First != 0 {
			return fmt.Sprintf("patches record %d, which is not the candidate", op.First)
		}
		for _, name := range names {
			if slices.Contains(fixedOfCandidate, name) {
				return fmt.Sprintf("changes %q of the candidate", name)
			}
		}
	} else {
		if wrong := t.changeable(op.First, "patches"); wrong != "" {
			return wrong
		}
		for _, name := range names {
			if !slices.Contains(variableOfMemory, name) {
				return fmt.Sprintf("changes %q of a stored memory; only %s may change", name,
					strings.Join(variableOfMemory, ", "))
			}
		}
	}
	return ""
}

func (t *Table) checkStore(op *plan.Op) string {
	var spec struct {
		Content *string `json:"content"`
		Quote   *string `json:"quote"`
	}
	if err := json.Unmarshal([]byte(op.Text), &spec); err != nil || spec.Content == nil {
		return "its text is not the spec of a memory with content"
	}
	if spec.Quote == nil {
		return "its spec has no quote"
	}
	for at := op.First; at <= op.Last; at++ {
		if !slices.Contains(messageRoles, t.Records[at].Role) {
			return fmt.Sprintf("is from record %d, which is not a message", at)
		}
	}
	return ""
}

func (t *Table) checkAsk(op *plan.Op) string {
	switch {
	case t.Asked:
		return "asks a model for the second time"
	case op.Text == "" || len(op.Text) > plan.MaxPrompt:
		return fmt.Sprintf("its text has %d bytes, and 1 to %d are possible", len(op.Text), plan.MaxPrompt)
	case op.Argument == 0 || op.Argument > plan.MaxAnswer:
		return fmt.Sprintf("asks for %d tokens, and 1 to %d are possible", op.Argument, plan.MaxAnswer)
	}
	return ""
}

func (t *Table) checkHits(op *plan.Op) string {
	for at := op.First; at <= op.Last; at++ {
		if t.Records[at].Kind != plan.KindMemory {
			return fmt.Sprintf("names record %d, which is not a hit", at)
		}
	}
	if op.Code == plan.OpRank && op.Argument > plan.MaxScore {
		return fmt.Sprintf("its argument is %d, and at most %d is possible", op.Argument, plan.MaxScore)
	}
	return ""
}
