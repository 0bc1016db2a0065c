package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunIsWrittenDown: an auditor can read the requests and responses of a
// sandbox that a rule records, as the sandbox had them, after its task has
// ended; the added secret is in no file.
func TestRunIsWrittenDown(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	config := filepath.Join(b.home, "ebb.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	b.write("ebb.yaml", strings.Replace(string(text), "egress: {", "egress: {transcripts: {rules: [{name: orders, providers: [shop], methods: [GET], paths: [/v1/**], query: true, headers: [X-Note], answer_bytes: 4096}]}, ", 1))
	b.serve()
	b.put()
	out, stderr := b.run(`curl -sS --fail -H "X-Note: by hand" -H "Authorization: Bearer $KEY" "https://$HOST/v1/orders?page=7"`)
	if !strings.Contains(out, "/v1/orders by Bearer ") {
		t.Errorf("%s%s", out, stderr)
	}
	var list []struct{ ID string }
	if text := b.must(b.ebb("transcripts", "list", "-o", "json")); json.Unmarshal([]byte(text), &list) != nil || len(list) != 1 {
		t.Fatalf("listed: %s", text)
	}
	said := b.must(b.ebb("transcripts", "show", list[0].ID, "-o", "json"))
	for _, want := range []string{`"orders"`, "/v1/orders", "page=7", "by hand", "by Bearer [redacted]", "200"} {
		if !strings.Contains(said, want) {
			t.Errorf("there is no %s in\n%s", want, said)
		}
	}
	if !strings.Contains(b.must(b.ebb("audit", "list", "--kind", "transcript.read", "-o", "json")), list[0].ID) {
		t.Error("that it was read is on no record")
	}
	heard := false
	err = filepath.WalkDir(filepath.Join(b.home, "data"), func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile, like temporary files of a database
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		heard = heard || strings.Contains(string(text), "/v1/orders by Bearer [redacted]")
		if strings.Contains(string(text), runCanary) {
			t.Errorf("the secret is in %s", path)
		}
		return nil
	})
	if err != nil || !heard {
		t.Errorf("the file of the transcript was looked at: %v; %v", heard, err)
	}
}
