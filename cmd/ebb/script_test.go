package main

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/doctest"
)

// TestScripts runs testdata/script/*.txtar against the built binary.
//
//ebb:invariant I8 The command line of a person's browser contains neither a sign-in link nor the console's host name
//ebb:invariant I8 A crash of ebb writes no core file and passes no memory to a core-dump handler
//ebb:invariant I11 ebb refuses to start with a database that lacks audit log entries which a high-water mark shows as durable
func TestScripts(t *testing.T) {
	t.Parallel()
	p := scripts(t, "")
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// TestScriptsInFIPSMode runs some of them with GODEBUG=fips140=only, and checks
// what that mode refuses.
//
//ebb:invariant I6 With `GODEBUG=fips140=only`, a rule that allows WebSockets is refused
//ebb:invariant I6 With `GODEBUG=fips140=only`, an attestor of kind `tpm` is refused
func TestScriptsInFIPSMode(t *testing.T) {
	t.Parallel()
	p := scripts(t, "fips140=only")
	for _, name := range []string{"keys", "walk", "ssh", "real"} {
		p.Files = append(p.Files, filepath.Join("testdata/script", name+".txtar"))
	}
	p.Files = append(p.Files, "testdata/fips.txtar")
	testscript.Run(t, p)
}

// scripts are run against the built binary with a value of GODEBUG.
func scripts(t *testing.T, godebug string) testscript.Params {
	t.Helper()
	bin := buildBinary(t)
	return testscript.Params{
		Setup: func(e *testscript.Env) error {
			e.Setenv("GODEBUG", godebug)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("PATH", filepath.Dir(bin)+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("BIN", filepath.Dir(bin))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_DATA_HOME", "")
			e.Setenv("DATA", filepath.Join(e.WorkDir, ".local/share/ebb"))
			e.Setenv("EBB_LISTEN", "127.0.0.1:0")
			e.Setenv("EBB_LIMITS_POLL_INTERVAL", "1s")
			e.Setenv("EBB_LIMITS_CHECKPOINT", "1s")
			for name, from := range counterparts {
				e.Setenv(name, os.Getenv(from))
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			from, known := counterparts[cond]
			if !known {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			there := os.Getenv(from) != ""
			if !there && counterpart.Required(t, strings.ToLower(cond)) {
				return false, fmt.Errorf("%s is required and not set", from)
			}
			return there, nil
		},
		UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready": ready, "marked": marked, "until": until, "setvar": setvar, "freeport": freeport, "sql": execSQL, "codes": codes,
			"newdb": newDB, "forget": forget, "certificate": certificate, "collector": collector, "hup": hup, "idtoken": idToken, "boxdir": sandboxDir,
		},
	}
}

// builds is the directory of the built binary, shared by all tests.
var builds string

func TestMain(m *testing.M) {
	doctest.Inside()
	code := m.Run()
	_ = os.RemoveAll(builds)
	os.Exit(code)
}

var build = sync.OnceValues(func() (bin string, err error) {
	if builds, err = os.MkdirTemp("", "ebb-test-"); err != nil {
		return "", err
	}
	bin = filepath.Join(builds, "ebb")
	text, err := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", bin, ".")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	return bin, nil
})

// buildBinary returns the path of ebb and builds it at the first call.
func buildBinary(t *testing.T) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// counterparts are real servers that scripts use if they are configured.
var counterparts = map[string]string{"REDIS": "EBB_TEST_REDIS", "POSTGRES": "EBB_TEST_POSTGRES", "BWRAP": "EBB_TEST_BWRAP"}

// patience is the longest wait for a condition that must become true; only a
// failing test waits that long.
const patience = 2 * time.Minute

// ready waits until the ebb of the data directory responds: ready [DATA].
func ready(ts *testscript.TestScript, neg bool, args []string) {
	data := ts.Getenv("DATA")
	if len(args) > 0 {
		data = args[0]
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		url, err := os.ReadFile(filepath.Join(data, urlFile))
		if err != nil {
			continue
		}
		resp, err := http.Get(strings.TrimSpace(string(url)) + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	ts.Fatalf("ebb did not get ready")
}

// marked waits until the high-water marks beside the keys name the last entry of each chain in an
// export, or a later one: marked EXPORT.
func marked(ts *testscript.TestScript, neg bool, args []string) {
	last := map[string]int64{}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var e audit.Entry
		if audit.IsEntry([]byte(line)) && e.UnmarshalJSON([]byte(strings.TrimSpace(line))) == nil {
			last[e.Writer] = max(last[e.Writer], e.Seq)
		}
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(ts.Getenv("DATA"), "keys", "mark-*.json"))
		ts.Check(err)
		missing := maps.Clone(last)
		for _, file := range files {
			var c audit.Checkpoint
			text, err := os.ReadFile(file)
			if err != nil || c.UnmarshalJSON(text) != nil {
				continue
			}
			maps.DeleteFunc(missing, func(writer string, seq int64) bool { return c.Heads[writer].Seq >= seq })
		}
		if len(missing) == 0 {
			return
		}
	}
	ts.Fatalf("no high-water mark names the entries of %s", args[0])
}

// until repeats a command until its output matches: until REGEXP CMD ARG...
func until(ts *testscript.TestScript, neg bool, args []string) {
	want := regexp.MustCompile(args[0])
	var text []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		program := args[1]
		if program == "ebb" {
			program = filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], program)
		}
		cmd := exec.CommandContext(ctx, program, args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		for _, name := range []string{"HOME", "PATH", "EBB_URL", "EBB_DATA_DIR", "SSH_AUTH_SOCK"} {
			if v := ts.Getenv(name); v != "" {
				cmd.Env = append(cmd.Env, name+"="+v)
			}
		}
		text, _ = cmd.CombinedOutput()
		cancel()
		if want.Match(text) {
			fmt.Fprint(ts.Stdout(), string(text))
			return
		}
	}
	ts.Fatalf("never: %s\n%s", args[0], text)
}

// setvar sets a variable to a part of a file or of stdout: setvar NAME REGEXP
// FILE.
func setvar(ts *testscript.TestScript, neg bool, args []string) {
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile(args[2]))
	if m == nil {
		ts.Fatalf("%s does not match %s", args[2], args[1])
	}
	ts.Setenv(args[0], m[len(m)-1])
}

// freeport sets a variable to a free port: freeport NAME.
func freeport(ts *testscript.TestScript, neg bool, args []string) {
	ts.Setenv(args[0], strconv.Itoa(counterpart.FreePort(ts)))
}

// execSQL changes an SQLite file while ebb does not notice: sql FILE STATEMENT.
func execSQL(ts *testscript.TestScript, neg bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(args[1])
	ts.Check(err)
	ts.Check(db.Close())
}

// codes runs a command and checks its exit code: codes N CMD ARG...
func codes(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		ee, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = ee.ExitCode()
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// sandboxDir creates a directory that a sandbox may write to, and changes to it:
// boxdir NAME. No sandbox runs as root, so as root the directory belongs to
// another user.
func sandboxDir(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	if os.Geteuid() == 0 {
		ts.Check(os.Chown(dir, 4242, 4242))
	}
	ts.Check(ts.Chdir(dir))
}

// hup sends SIGHUP, which testscript's kill does not support, to the background
// commands.
func hup(ts *testscript.TestScript, neg bool, args []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGHUP))
	}
}
