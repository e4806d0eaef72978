package project

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine/fault"
	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
)

// maxChanges is how many changes of its settings a project remembers; the oldest are dropped.
const maxChanges = 500

// SettingsChange is one change of a project's settings: who made it, and the values before and after.
type SettingsChange struct {
	ID      string          `json:"id"`
	At      time.Time       `json:"created_at"`
	KeyID   string          `json:"key_id"`
	Role    string          `json:"role"`
	Changes []SettingChange `json:"changes"`
}

// storedSettingsChange is a SettingsChange as it is stored.
type storedSettingsChange struct {
	ID      string          `json:"id"`
	At      time.Time       `json:"at"`
	KeyID   string          `json:"key_id"`
	Role    string          `json:"role"`
	Changes []SettingChange `json:"changes"`
}

// SettingChange is the change of one setting. null means that the setting is not set and has its default.
type SettingChange struct {
	Setting string          `json:"setting"`
	Before  json.RawMessage `json:"before"`
	After   json.RawMessage `json:"after"`
}

// Tag returns a hash of the settings, including defaults: equal tags mean equal settings.
func (s *Settings) Tag() (string, error) {
	b, err := json.Marshal(s)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), err
}

// SettingsHistory pages through the changes of a project's settings, newest first. It returns not_found, out_of_range
// and invalid_cursor.
func (svc *Service) SettingsHistory(ctx context.Context, c ident.Caller, id string, page records.Page) (
	records.List[SettingsChange], error) {
	p, err := svc.Find(ctx, c, id)
	if err != nil {
		return records.List[SettingsChange]{}, err
	}
	return records.ListPage(ctx, svc.db, c.Tenant, records.SettingsChange.Under(p.Incarnation), page,
		func(_ []byte, change *storedSettingsChange) (SettingsChange, bool) {
			return SettingsChange(*change), true
		})
}

// remember adds a change to the history, in the commit that makes it, and drops the oldest ones.
func (svc *Service) remember(t *records.Tx, c ident.Caller, p *Record, before json.RawMessage) error {
	change := SettingsChange{At: t.Now, KeyID: c.KeyID, Role: c.Role.String()}
	var err error
	if change.Changes, err = settingChanges(before, p.Set); err != nil || len(change.Changes) == 0 {
		return err
	}
	var id [8]byte
	svc.db.Random(id[:])
	change.ID = changeID(id)
	rng := records.SettingsChange.Under(p.Incarnation)
	rng.KeysOnly = true
	kept := 1
	for it, err := range svc.db.Scan(t.Ctx, t.Tenant, rng) {
		if err != nil {
			return err
		}
		if kept++; kept > maxChanges {
			t.Delete(it.Key)
		}
	}
	return t.PutJSON(records.SettingsChange.Key(p.Incarnation, t.Now, id), storedSettingsChange(change))
}

func changeID(id [8]byte) string { return "set_" + ident.Alphabet.EncodeToString(id[:]) }

// settingChanges lists the settings in which two objects of settings differ, by name.
func settingChanges(before, after json.RawMessage) ([]SettingChange, error) {
	var was, is map[string]json.RawMessage
	for _, of := range []struct {
		set  json.RawMessage
		into *map[string]json.RawMessage
	}{{before, &was}, {after, &is}} {
		if len(of.set) > 0 {
			if err := json.Unmarshal(of.set, of.into); err != nil {
				return nil, err
			}
		}
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(is))
	slices.Sort(names)
	var out []SettingChange
	for _, name := range slices.Compact(names) {
		if !bytes.Equal(was[name], is[name]) {
			out = append(out, SettingChange{name, was[name], is[name]})
		}
	}
	return out, nil
}

// unlike returns settings_changed if the project's settings are not the ones that the caller knows.
func (svc *Service) unlike(p *Record, known func(tag string) bool) error {
	if known == nil {
		return nil
	}
	s, err := svc.WithDefaults(p.Set)
	if err != nil {
		return err
	}
	tag, err := s.Tag()
	if err == nil && !known(tag) {
		err = fault.Errorf(fault.Precondition, "settings_changed",
			"the settings have another ETag than If-Match names; read them again")
	}
	return err
}

// Sweep removes a part of the history of a deleted project, and reports whether there was any.
func (svc *Service) Sweep(ctx context.Context, tenant string, pinc ident.Incarnation) (more bool, err error) {
	return svc.db.DeleteRange(ctx, tenant, records.SettingsChange.Under(pinc))
}
