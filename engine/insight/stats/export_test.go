package stats

// Hold sets the maximum number of counts in memory.
func (svc *Service) Hold(most int) { svc.most = most }

// Held returns the number of counts in memory.
func (svc *Service) Held() int {
	svc.mu.Lock()
	defer svc.mu.Unlock()
	return len(svc.held)
}

// Quantile returns a quantile of a histogram of durations.
func Quantile(us []uint64, percent uint64) *uint64 {
	var h Histogram
	for _, d := range us {
		h.add(binOf(d), 1)
	}
	return h.quantile(percent)
}
