package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// TestMetricsTable compares the metrics of an ebb with Redis, a provider and a
// notification channel with the tables of the documentation. Every registered
// metric must be in a table under docs/reference, and every metric in a table
// of any document must be registered with the labels that the table names.
func TestMetricsTable(t *testing.T) {
	t.Parallel()
	registered := describe(t, ebbWithAllMetrics(t))
	docs, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	reference := map[string]bool{}
	for _, doc := range docs {
		for _, m := range tableMetrics(t, doc) {
			if strings.HasPrefix(doc, "../../docs/reference/") {
				reference[m.name] = true
			}
			labels, known := registered[m.name]
			if !known {
				t.Errorf("%s: %s is not registered", doc, m.name)
				continue
			}
			for _, l := range m.labels {
				if !slices.Contains(labels, l) {
					t.Errorf("%s: %s has no label %q; it has %v", doc, m.name, l, labels)
				}
			}
		}
	}
	for name := range registered {
		if !reference[name] {
			t.Errorf("%s is in no table under docs/reference", name)
		}
	}
}

// ebbWithAllMetrics returns the registry of an ebb of which every optional part
// that has metrics is configured.
func ebbWithAllMetrics(t *testing.T) *prometheus.Registry {
	t.Helper()
	dir := t.TempDir()
	path, key := filepath.Join(dir, "ebb.yaml"), filepath.Join(dir, "hook.key")
	text := "notify:\n  channels:\n    - {name: hook, kind: webhook, config: {url: \"http://127.0.0.1:1/\", secret: {file: " + key + "}}}\n  routes:\n    - {channels: [hook]}\n"
	for file, content := range map[string]string{path: text, key: "whsec_" + strings.Repeat("k", 32)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(config.Source{File: path, Environ: []string{"EBB_LISTEN=127.0.0.1:0", "EBB_DATA_DIR=" + filepath.Join(dir, "data"), "EBB_REDIS_ADDRS=" + redistest.New(t).Addr}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := assemble(t.Context(), settings{Config: cfg, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	})
	return n.metrics
}

var descPattern = regexp.MustCompile(`^Desc\{fqName: "(ebb_\w+)", .*, variableLabels: \{(.*)\}\}$`)

// describe returns the labels of every ebb metric of a registry by its name. It
// reads descriptions, because Gather omits a metric without a value of any
// label.
func describe(t *testing.T, r *prometheus.Registry) map[string][]string {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() { defer close(descs); r.Describe(descs) }()
	out := map[string][]string{}
	for d := range descs {
		if m := descPattern.FindStringSubmatch(d.String()); m != nil {
			out[m[1]] = strings.Split(m[2], ",")
		}
	}
	if len(out) < 20 {
		t.Fatalf("found only %d metrics; descPattern may not match this version of client_golang", len(out))
	}
	return out
}

// metric is a metric as a table names it.
type metric struct {
	name   string
	labels []string
}

var (
	metricPattern = regexp.MustCompile("`(ebb_\\w+)(?:\\{([^}`]*)\\})?`")
	labelPattern  = regexp.MustCompile(`^\w+`)
)

// tableMetrics returns the metrics in the first column of a document's tables.
func tableMetrics(t *testing.T, doc string) (out []metric) {
	t.Helper()
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `ebb_") {
			continue
		}
		first, _, _ := strings.Cut(line[1:], "|")
		for _, m := range metricPattern.FindAllStringSubmatch(first, -1) {
			found := metric{name: m[1]}
			for l := range strings.SplitSeq(m[2], ",") {
				if l != "" {
					found.labels = append(found.labels, labelPattern.FindString(l))
				}
			}
			out = append(out, found)
		}
	}
	return out
}
