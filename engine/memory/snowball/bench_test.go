package snowball

import (
	"strings"
	"testing"
)

// BenchmarkIndex analyses texts as the index does.
func BenchmarkIndex(b *testing.B) {
	a := newAnalyser(b)
	for name, text := range map[string]string{
		"english": strings.Repeat("The quick brown fox, which wasn't Anna's, was jumping over 3 lazy dogs of the neighbours. ", 4),
		"german":  strings.Repeat("Die Nachbarn haben gestern für 30 Euro neue Fahrräder gekauft, und wir schauten zu. ", 4),
		"code":    strings.Repeat("func (s *PaymentGatewayService) getUserDetails(id int) error { return s.http.Get(id) } ", 4),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				a.Index(text)
			}
		})
	}
}
