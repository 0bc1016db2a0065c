package policy_test

import (
	"os"
	"testing"

	"github.com/ebb-broker/ebb/scopes/policy"
)

func TestStarter(t *testing.T) {
	t.Parallel()
	files, err := policy.TestFiles(os.DirFS("starter"))
	if err != nil {
		t.Fatal(err)
	}
	report := policy.RunTests(policy.Starter(), files)
	for _, r := range report.Results {
		if !r.OK {
			t.Errorf("%s: %s: %v", r.File, r.Name, r.Diff)
		}
	}
	if !report.OK() || report.Passed < 7 {
		t.Errorf("%d passed, %d failed", report.Passed, report.Failed)
	}
	loaded, err := policy.LoadDir(os.DirFS("starter"))
	if err != nil || loaded.Version() != policy.Starter().Version() {
		t.Errorf("the printed policy is not the built-in one: %v", err)
	}
}
