package stats

// Hold sets how many counts are held in memory at most.
func (svc *Service) Hold(most int) { svc.most = most }

// Held is how many counts are held in memory.
func (svc *Service) Held() int {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	return len(svc.held)
}

// Quantile is what a histogram says of durations.
func Quantile(us []uint64, percent uint64) *uint64 {
	var h Histogram
	for _, d := range us {
		h.add(binOf(d), 1)
	}
	return h.quantile(percent)
}
