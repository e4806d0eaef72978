package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-0906e6bc/mneme/engine/gateway"
)

// proxyCounts collects the token counts that providers reported for prompts of the proxy, by project and model.
type proxyCounts func() []gateway.Figures

var proxyCountLabels = []string{"tenant", "project", "model"}

var (
	promptTokens = prometheus.NewDesc("mneme_proxy_prompt_tokens_total",
		"Tokens of prompts, as their providers counted them. Beyond 1,000 models of projects, the names are empty.",
		proxyCountLabels, nil)
	cachedTokens = prometheus.NewDesc("mneme_proxy_cached_tokens_total",
		"Tokens of prompts that were read from the provider's cache, which stable windows make cheaper.", proxyCountLabels, nil)
	writtenTokens = prometheus.NewDesc("mneme_proxy_cache_write_tokens_total",
		"Tokens of prompts that were written to the provider's cache.", proxyCountLabels, nil)
	tokenRatio = prometheus.NewDesc("mneme_proxy_token_ratio",
		"The provider's token count of prompts divided by Mneme's count before token_scale.", proxyCountLabels, nil)
)

// Describe sends nothing, because the labels differ between projects.
func (proxyCounts) Describe(chan<- *prometheus.Desc) {}

func (figures proxyCounts) Collect(out chan<- prometheus.Metric) {
	for _, f := range figures() {
		add := func(desc *prometheus.Desc, sort prometheus.ValueType, value float64) {
			out <- prometheus.MustNewConstMetric(desc, sort, value, f.Tenant, f.Project, f.Model)
		}
		add(promptTokens, prometheus.CounterValue, float64(f.Input))
		add(cachedTokens, prometheus.CounterValue, float64(f.Cached))
		add(writtenTokens, prometheus.CounterValue, float64(f.Written))
		if f.Calls > 0 {
			add(tokenRatio, prometheus.GaugeValue, f.Ratio)
		}
	}
}
