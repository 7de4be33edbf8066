# Run "make" to see what there is. Every tool is run by "go run" at a pinned
# version, so a checkout needs nothing but Go and make.

STATICCHECK   := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.9.0
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 10s
BENCH    ?= .
PKG      ?= ./...
DATA     ?=
# bench-tiers: full, quick, or parts (writes,delay,reads,archive,keys); numbers of
# writers; bytes of a document; the length of a slice; contestants of the writes
# (bytes,straight,query,article,full); a file for the report.
MODE     ?= full
WRITERS  ?=
SIZE     ?=
TIME     ?=
ONLY     ?=
JSON     ?=
SOURCES   = $$(find . -name '*.go' -type f -not -path './.*')
# torture: the seed of a run to repeat; how long all campaigns may take together.
SEED     ?=
BUDGET   ?=
# The race detector looks at tierd and its libraries, but not into SQLite, which is C
# translated to Go, with its memory outside of Go's, where the detector sees nothing
# and takes most of the time of the tests; nor into the parser of command lines and its
# regular expressions, which share nothing: tests parse some hundred lines.
UNRACED  := modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory github.com/alecthomas/kong regexp
RACE     := -race $(UNRACED:%=-gcflags=%=-race=false)
# Packages tested side by side. Two keeps the race detector within 2 cores.
P        ?= 2
# Whether everything is tested: then the longest packages begin, so that none of them
# runs alone at the end, and what is not for the race detector runs beside them.
WHOLE     = $(filter ./...,$(PKG))
LONGEST  := ./warm/postgres ./tiering/lifecycle ./router

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/tierd
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/tierd ./cmd/tierd

.PHONY: test
test: ## Start Redis, PostgreSQL and S3 servers and run all tests with the race detector (PKG=./hot/... for some)
	$(if $(WHOLE),$(GO) test -count=1 -timeout=14m -run='^(TestMachine|TestAYear|TestWrappedWarmConforms|TestAllocations.*)$$' ./tiering/lifecycle ./internal/telemetry ./internal/bench & unraced=$$!;) \
	GO=$(GO) scripts/test $(RACE) -count=1 -timeout=14m -p=$(P) $(if $(WHOLE),$(LONGEST)) $(PKG); raced=$$?; \
	$(if $(WHOLE),wait $$unraced &&) exit $$raced

.PHONY: quick
quick: ## Run all tests without the race detector, cached; those of servers where the environment names some
	LIFECYCLE_SEQUENCES=60 $(GO) test -timeout=5m $(PKG)

.PHONY: race
race: ## Run the tests with the race detector on 1, 2 and 4 processors; those of servers where the environment names some
	$(GO) test $(RACE) -count=1 -cpu=1,2,4 -timeout=40m -p=$(P) $(PKG)

.PHONY: failover
failover: ## Run the tests that kill, freeze and fail over servers of their own
	FAILOVER=1 GO=$(GO) scripts/test $(RACE) -count=1 -timeout=20m -p=1 ./hot/redis ./warm/postgres ./internal/outage

.PHONY: torture
torture: ## Run the campaigns of internal/torture in full and print their table (SEED=number to repeat one, BUDGET=10m)
	TORTURE=1 SEED='$(SEED)' BUDGET='$(BUDGET)' GO=$(GO) scripts/test -count=1 -v -timeout=4h -run='^TestTorture$$' ./internal/torture

.PHONY: soak
soak: ## Load a daemon on real servers steadily and watch its memory, goroutines, descriptors, connections and lag (TIME=1h)
	SOAK='$(or $(TIME),1h)' GO=$(GO) scripts/test -count=1 -v -timeout=12h -run='^TestSoak$$' ./internal/torture

.PHONY: torture-histories
torture-histories: ## Check 2,000 histories of one key each with porcupine, embedded and on servers, under faults
	HISTORIES=2000 GO=$(GO) scripts/test -count=1 -timeout=4h -v -run='^(TestOneKeyIsLinearizable|TestLinearizabilityCheckSeesNaiveStores)$$' ./router

.PHONY: torture-sequences
torture-sequences: ## Run 10,000 random sequences of all that callers ask for over a daemon that is killed, embedded and on servers (SEQUENCES=100)
	SEQUENCES='$(or $(SEQUENCES),10000)' GO=$(GO) scripts/test -count=1 -timeout=8h -v -run='^TestSequences$$' ./internal/torture

.PHONY: torture-lifecycle
torture-lifecycle: ## Run 10,000 random sequences of everything that befalls documents in warm and cold
	LIFECYCLE_SEQUENCES=10000 $(GO) test -count=1 -timeout=4h -v -run='^TestMachine$$' ./tiering/lifecycle

.PHONY: fuzz
fuzz: ## Run every fuzz target for a while (FUZZTIME=10s, PKG=./cold)
	GO=$(GO) scripts/fuzz $(FUZZTIME) $(PKG)

.PHONY: bench
bench: ## Run the benchmarks (BENCH=regexp, PKG=packages, TIME=1s of each)
	$(GO) test -run='^$$' -bench='$(BENCH)' -benchtime='$(or $(TIME),1s)' -benchmem -timeout=60m -p=1 $(PKG)

.PHONY: bench-tiers
bench-tiers: ## Measure the router on Redis, PostgreSQL and S3 beside what one writes by hand (MODE=quick, WRITERS=16,64, SIZE=1024, TIME=2s, JSON=file)
	BENCH_MODE='$(MODE)' BENCH_WRITERS='$(WRITERS)' BENCH_SIZE='$(SIZE)' BENCH_TIME='$(TIME)' BENCH_ONLY='$(ONLY)' BENCH_JSON='$(abspath $(JSON))' \
		GO=$(GO) scripts/test -count=1 -v -timeout=60m -run='^TestTiers$$' ./internal/bench

.PHONY: bench-scale
bench-scale: ## Measure what a million documents do to a daemon, beside a tenth as many (KEYS=1000000, TIERS=embedded)
	SCALE_KEYS='$(or $(KEYS),1000000)' SCALE_TIERS='$(TIERS)' GO=$(GO) scripts/test -count=1 -v -timeout=3h -run='^TestScale$$' ./internal/scale

.PHONY: bench-recall
bench-recall: ## Measure the indexes of memories: recall, latency beside plain loops and bare SQL, the cost of remembering (ROWS=100000)
	TIERD_RECALL_ROWS='$(ROWS)' GO=$(GO) scripts/test -count=1 -v -timeout=60m -run='^$$' -bench=. -benchtime=100x ./vector/flat ./vector/pgvector

.PHONY: replay
replay: ## Replay agent sessions through daemons that are killed on the way, with their servers, and measure (DATA=file.jsonl)
	REPLAY_DATA=$(abspath $(DATA)) GO=$(GO) scripts/test -count=1 -v -timeout=40m -run='^TestReplay' ./internal/replay

.PHONY: fmt
fmt: ## Format the code
	gofmt -w -s $(SOURCES)

.PHONY: lint
lint: lint-fmt lint-vet lint-static lint-mod lint-arch lint-vuln ## Check format, vet, staticcheck, go.mod, directions, known vulnerabilities

.PHONY: lint-fmt lint-vet lint-static lint-mod lint-arch lint-vuln
lint-fmt:
	@files=$$(gofmt -l -s $(SOURCES)); \
	if [ -n "$$files" ]; then echo "not formatted (run make fmt):"; echo "$$files"; exit 1; fi
lint-vet:
	$(GO) vet ./...
lint-static:
	$(GO) run $(STATICCHECK) ./...
lint-mod:
	$(GO) mod tidy -diff
lint-arch:
	$(GO) test -count=1 ./internal/archtest
lint-vuln:
	GO=$(GO) scripts/vulncheck $(GOVULNCHECK) ./...

.PHONY: lint-more
lint-more: ## Run golangci-lint too (builds it first: some minutes)
	$(GO) run $(GOLANGCI_LINT) run ./...

.PHONY: docs
docs: ## Write the generated documents again
	$(GO) test -count=1 ./internal/telemetry -run='^TestMetricsPage$$' -update

.PHONY: docs-check
docs-check: ## Check that generated documents and examples are what the code says
	$(GO) test -count=1 ./internal/telemetry -run='^TestMetricsPage$$'
	$(GO) test -count=1 -run='^Example' $(PKG)

.PHONY: clean
clean: ## Remove what builds and tests left behind
	rm -rf bin
	find . -name '*.test' -type f -delete
	find . -name '*.prof' -type f -delete
