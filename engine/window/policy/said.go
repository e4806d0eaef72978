package policy

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/plan"
)

// ShowVersion is GetVersion with the texts of the manifest. They are left out if the module cannot be read, so that the
// version can still be shown.
func (svc *Service) ShowVersion(ctx context.Context, c ident.Caller, name string, version int) (Version, error) {
	v, err := svc.GetVersion(ctx, c, name, version)
	if err != nil {
		return v, err
	}
	var m plan.Manifest
	code, err := svc.code(ctx, c.Tenant, &v)
	if err == nil {
		m, err = svc.host.Manifest(code)
	}
	if err != nil {
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		svc.db.Log.Error("a policy's manifest cannot be read", "tenant", c.Tenant, "version", VersionName(name, version),
			"error", err)
		return v, nil
	}
	v.Tests = append([]json.RawMessage{}, m.Tests...)
	m.Tests = nil
	v.Manifest = &m
	return v, nil
}

// ModuleOf returns the bytes of a version as uploaded. It returns not_found, or module_purged if the version was
// deleted in the meantime.
func (svc *Service) ModuleOf(ctx context.Context, c ident.Caller, name string, version int) ([]byte, error) {
	v, err := svc.GetVersion(ctx, c, name, version)
	if err != nil {
		return nil, err
	}
	return svc.code(ctx, c.Tenant, &v)
}

// code reads the module of a version.
func (svc *Service) code(ctx context.Context, tenant string, v *Version) ([]byte, error) {
	var digest plan.Digest
	if _, err := hex.Decode(digest[:], []byte(strings.TrimPrefix(v.Digest, "sha256:"))); err != nil {
		return nil, fmt.Errorf("the digest of %s: %w", VersionName(v.Name, v.Version), err)
	}
	code, err := svc.module(ctx, tenant, digest)
	if gone, ok := errors.AsType[*fault.Error](err); ok && gone.Kind == fault.Gone {
		return nil, modulePurged(VersionName(v.Name, v.Version), digest)
	}
	return code, err
}
