.PHONY: serve test check policies bench

serve: ## run the server
	go run . serve

test: ## all tests
	go test ./...

check: ## what CI runs
	.ci/run

policies: ## rebuild the built-in policies (needs TinyGo)
	policies/build.sh

bench: ## the benchmarks of docs/BENCHMARKS.md
	go test -run '^$$' -bench . ./engine/... ./hostapi/... ./server/...
