package decision

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"math"
	"slices"

	"github.com/seed-0906e6bc/mneme/engine/ident"
	"github.com/seed-0906e6bc/mneme/engine/records"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// Calibration compares a provider's token counts of a model's prompts with Mneme's own, before scaling. Longer prompts
// have more weight, because overhead that is the same for every prompt matters less in them.
type Calibration struct {
	Model   string  `json:"model"`
	Calls   uint64  `json:"calls"`
	Counted uint64  `json:"counted_tokens"` // by Mneme, before token_scale
	Ratio   float64 `json:"ratio"`          // of the provider's count to Mneme's
	Spread  float64 `json:"spread"`         // the standard deviation of the ratio
	Sure    bool    `json:"sure"`           // token_scale can be set to the ratio
}

// A ratio is sure after enough calls with nearly the same ratio.
const (
	sureCalls  = 20
	sureSpread = 0.1 // of the ratio
)

// Add adds the counts of one prompt.
func (c *Calibration) Add(real, counted uint64) {
	if real == 0 || counted == 0 {
		return
	}
	c.merge(&Calibration{Calls: 1, Counted: counted, Ratio: float64(real) / float64(counted)})
}

// merge adds the counts of another day: Chan, Golub and LeVeque, Updating Formulae, 1979.
func (c *Calibration) merge(d *Calibration) {
	w, v := float64(c.Counted), float64(d.Counted)
	squares := c.Spread*c.Spread*w + d.Spread*d.Spread*v
	apart := d.Ratio - c.Ratio
	c.Calls, c.Counted = c.Calls+d.Calls, c.Counted+d.Counted
	c.Ratio += apart * v / (w + v)
	c.Spread = math.Sqrt((squares + apart*apart*w*v/(w+v)) / (w + v))
	c.Sure = c.Calls >= sureCalls && c.Spread <= sureSpread*c.Ratio
}

// rounded returns the calibration for display: token_scale has three decimals.
func (c Calibration) rounded() Calibration {
	c.Ratio, c.Spread = math.Round(c.Ratio*1000)/1000, math.Round(c.Spread*1000)/1000
	return c
}

func calibrationKey(pinc ident.Incarnation, day uint16, model string) []byte {
	sum := sha256.Sum256([]byte(model))
	return records.Calibration.Key(pinc, day, [16]byte(sum[:16]))
}

// Calibration returns a model's calibration of the given day. If there is none, only the model's name is set.
func (svc *Service) Calibration(ctx context.Context, tenant string, pinc ident.Incarnation, day uint16, model string,
) (Calibration, error) {
	out := Calibration{Model: model}
	it, err := svc.db.ReadItem(ctx, tenant, calibrationKey(pinc, day, model))
	if err == nil && it.Value != nil && json.Unmarshal(it.Value, &out) != nil {
		out = Calibration{Model: model} // It is damaged, so it starts again.
	}
	return out, err
}

// KeepCalibration stores a model's calibration of the given day.
func (svc *Service) KeepCalibration(ctx context.Context, tenant string, pinc ident.Incarnation, day uint16,
	c *Calibration) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return svc.db.Commit(ctx, tenant, store.Batch{Put: []store.Pair{{Key: calibrationKey(pinc, day, c.Model), Value: b}}})
}

// maxCalibrations is the maximum number of records that Calibrations reads.
const maxCalibrations = 1000

// Calibrations returns the calibrations of a project's models, sorted by name, over all days whose decisions are kept.
func (svc *Service) Calibrations(ctx context.Context, tenant string, pinc ident.Incarnation) ([]Calibration, error) {
	rng := records.Calibration.Under(pinc)
	rng.Limit, rng.Reverse = maxCalibrations, true // the newest days first
	r, err := svc.db.Store.Read(ctx, tenant, store.Query{Ranges: []store.Range{rng}})
	if err != nil {
		return nil, err
	}
	var out []Calibration
	for _, it := range r.Ranges[0] {
		day := new(Calibration)
		if it.Value == nil || json.Unmarshal(it.Value, day) != nil {
			continue // verify reports it
		}
		at, found := slices.BinarySearchFunc(out, day.Model, func(c Calibration, model string) int {
			return cmp.Compare(c.Model, model)
		})
		if !found {
			out = slices.Insert(out, at, Calibration{Model: day.Model})
		}
		out[at].merge(day)
	}
	for i := range out {
		out[i] = out[i].rounded()
	}
	return out, nil
}

// calibration checks one calibration record. No other record needs it.
func (c *checks) calibration(s *verify.Space, it store.Item) {
	pinc, _, _, ok := records.Calibration.Split(it.Key)
	s.About(pinc, "")
	switch {
	case !ok || it.Damaged:
	case !s.Belongs(pinc):
		s.Orphan("the calibration's project does not exist").Harmless = true
	default:
		s.Decode(it, new(Calibration))
	}
}
