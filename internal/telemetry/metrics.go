package telemetry

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// The buckets. Latencies run from an answer out of process memory to a cold
// read over a bad link; sizes up to the largest body that the API takes.
func latencyBuckets() []float64 {
	return []float64{
		50e-6, 100e-6, 250e-6, 500e-6,
		1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3,
		1, 2.5, 5, 10,
	}
}

// summaryBuckets run to the longest that a request may take.
func summaryBuckets() []float64 { return []float64{0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60} }

func sizeBuckets() []float64 { // 64 B, 256 B ... 4 MiB, 8 MiB
	return append(prometheus.ExponentialBuckets(64, 4, 9), 8<<20)
}

func rowBuckets() []float64 { return prometheus.ExponentialBuckets(1, 2, 11) } // 1 ... 1024

// metrics is every series that tierd makes itself.
type metrics struct {
	callDuration *prometheus.HistogramVec // tier, copy, op
	callErrors   *prometheus.CounterVec   // tier, copy, op, code
	coldBytes    *prometheus.CounterVec   // copy, direction

	loadDuration    *prometheus.HistogramVec // tier
	loadErrors      *prometheus.CounterVec   // code
	corruptLoads    *prometheus.CounterVec   // tier
	hotLookups      *prometheus.CounterVec   // outcome
	hotWritesMissed prometheus.Counter
	writeDuration   *prometheus.HistogramVec // op
	writeErrors     *prometheus.CounterVec   // op, code
	stateSize       prometheus.Histogram
	sizeWarnings    prometheus.Counter
	batchRows       prometheus.Histogram

	summaryDuration  prometheus.Histogram
	summaryErrors    *prometheus.CounterVec // code
	contextSummaries *prometheus.CounterVec // outcome

	feedLag       prometheus.Gauge
	archiveLag    prometheus.Gauge
	archiveAge    prometheus.Gauge
	missingCopies *prometheus.GaugeVec   // copy
	copyChecks    *prometheus.CounterVec // copy, outcome
	copySound     *prometheus.GaugeVec   // copy
	copyRepairs   *prometheus.CounterVec // copy, outcome
	moves         *prometheus.CounterVec // move, outcome
	movesDue      *prometheus.GaugeVec   // move
	tierBytes     *prometheus.GaugeVec   // tier, copy
	parkedMoves   prometheus.Gauge

	memories       prometheus.Gauge
	vectors        *prometheus.GaugeVec // state
	vectorsPending prometheus.Gauge

	httpDuration *prometheus.HistogramVec // route, method
	httpRequests *prometheus.CounterVec   // route, method, status
}

func newMetrics() *metrics {
	return &metrics{
		callDuration: histograms("tierd_tier_call_duration_seconds", "How long one call of a tier took. copy is primary or backup for cold, else empty.", latencyBuckets(), "tier", "copy", "op"),
		callErrors:   counters("tierd_tier_call_errors_total", "Calls of a tier that returned an error. not_found and exists are answers, not failures.", "tier", "copy", "op", "code"),
		coldBytes:    counters("tierd_cold_bytes_total", "Bytes that went to (direction write) or came from (direction read) a cold bucket.", "copy", "direction"),

		loadDuration:    histograms("tierd_load_duration_seconds", "How long a get took, by the tier that served it; none: a default was answered.", latencyBuckets(), "tier"),
		loadErrors:      counters("tierd_load_errors_total", "Gets that served nothing, by error code; not_found is one.", "code"),
		corruptLoads:    counters("tierd_corrupt_loads_total", "Copies whose bytes did not match their digest. The next copy served.", "tier"),
		hotLookups:      counters("tierd_hot_lookups_total", "Looks into hot by cached gets. outcome is hit or miss.", "outcome"),
		hotWritesMissed: counter("tierd_hot_writes_missed_total", "Committed writes that hot did not take; they were answered hot: false."),
		writeDuration:   histograms("tierd_write_duration_seconds", "How long a write of one key took, from admission to commit, failed ones included.", latencyBuckets(), "op"),
		writeErrors:     counters("tierd_write_errors_total", "Writes that failed, by error code; version_conflict is one.", "op", "code"),
		stateSize:       histogram("tierd_state_size_bytes", "Size of documents written, as compacted JSON.", sizeBuckets()),
		sizeWarnings:    counter("tierd_size_warnings_total", "Documents written above the warning size of their namespace."),
		batchRows:       histogram("tierd_commit_batch_rows", "Rows that one commit of warm carried.", rowBuckets()),

		summaryDuration:  histogram("tierd_summary_call_duration_seconds", "How long one request to the chat server that makes summaries took, failed ones included.", summaryBuckets()),
		summaryErrors:    counters("tierd_summary_call_errors_total", "Requests to the chat server that gave no summary, by error code.", "code"),
		contextSummaries: counters("tierd_context_summaries_total", "Contexts with a summary while a chat server is configured. outcome is model or extractive.", "outcome"),

		feedLag:       gauge("tierd_feed_lag_entries", "Committed transactions that are not in the feed yet."),
		archiveLag:    gauge("tierd_archive_lag_entries", "Feed entries that are not archived yet."),
		archiveAge:    gauge("tierd_archive_lag_seconds", "Age of the oldest change that is not archived yet; 0 when all are."),
		missingCopies: gauges("tierd_missing_copies", "Segments that lack a verified copy. They block demotion.", "copy"),
		copyChecks:    counters("tierd_copy_checks_total", "Copies of segments that were read back whole. outcome is sound, missing, bad or unreachable.", "copy", "outcome"),
		copySound:     gauges("tierd_copy_last_sound_timestamp_seconds", "When a copy was last read back and found sound, in Unix time.", "copy"),
		copyRepairs:   counters("tierd_copy_repairs_total", "Copies of segments that were made again from the other. outcome is done or the code of an error.", "copy", "outcome"),
		moves:         counters("tierd_moves_total", "What the lifecycle did. outcome is done, moved_on (the world changed first) or the code of an error.", "move", "outcome"),
		movesDue:      gauges("tierd_moves_due", "Moves that fall due within a day, as the last sweep saw them.", "move"),
		tierBytes:     gauges("tierd_tier_bytes", "Bytes that a tier holds. copy is primary or backup for cold, else empty.", "tier", "copy"),
		parkedMoves:   gauge("tierd_parked_moves", "Moves that keep failing; tierd status names them."),

		memories:       gauge("tierd_memories", "Memories that recall looks at."),
		vectors:        gauges("tierd_vectors", "Vectors of memories. state is indexed, fresh (searched one by one until they are merged into an index) or dormant.", "state"),
		vectorsPending: gauge("tierd_vectors_pending", "Memories that wait for the vector of their text, and are found by their words."),

		httpDuration: histograms("tierd_http_request_duration_seconds", "How long an HTTP request took. Event streams count when they end.", latencyBuckets(), "route", "method"),
		httpRequests: counters("tierd_http_requests_total", "HTTP requests answered, by status.", "route", "method", "status"),
	}
}

// all lists what New registers.
func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.callDuration, m.callErrors, m.coldBytes,
		m.loadDuration, m.loadErrors, m.corruptLoads, m.hotLookups, m.hotWritesMissed,
		m.writeDuration, m.writeErrors, m.stateSize, m.sizeWarnings, m.batchRows,
		m.summaryDuration, m.summaryErrors, m.contextSummaries,
		m.feedLag, m.archiveLag, m.archiveAge, m.missingCopies, m.copyChecks, m.copySound, m.copyRepairs,
		m.moves, m.movesDue, m.tierBytes, m.parkedMoves,
		m.memories, m.vectors, m.vectorsPending,
		m.httpDuration, m.httpRequests,
	}
}

// buildInfo is the constant 1 with the build in its labels.
func buildInfo(version string) prometheus.Collector {
	revision := ""
	if b, ok := debug.ReadBuildInfo(); ok {
		if version == "" {
			version = b.Main.Version
		}
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	g := gauges("tierd_build_info", "Always 1; the labels say what runs.", "version", "revision", "goversion")
	g.WithLabelValues(version, revision, runtime.Version()).Set(1)
	return g
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}
