package collector

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// TestMain prints the GOGC of this process instead of testing, for TestVariable.
func TestMain(m *testing.M) {
	if os.Getenv("EBB_PRINT_GOGC") != "" {
		fmt.Println(gogc())
		return
	}
	os.Exit(m.Run())
}

func gogc() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for kept, want := range map[uint64]int{0: 400, 1 << 20: 400, 10 << 20: 400, 20 << 20: 200, 40 << 20: 100, 1 << 30: 100} {
		if got := percent(kept); got != want {
			t.Errorf("%d MiB: %d, want %d", kept>>20, got, want)
		}
	}
}

// GOGC is set before main, and the variable GOGC has precedence.
func TestVariable(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"": "400", "50": "50"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{"EBB_PRINT_GOGC=1", "GOGC=" + value}
		out, err := cmd.Output()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("GOGC=%s: %s%v, want %s", value, out, err, want)
		}
	}
}

// GOGC follows the live memory, in both directions.
func TestFollowsLiveMemory(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Log("GOGC is set: the tuner is off")
		return
	}
	reached := func(want func(int) bool) bool {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); { // a goroutine of the runtime sets it
			if runtime.GC(); want(gogc()) {
				return true
			}
		}
		return false
	}
	kept := make([]byte, 2*garbage)
	if !reached(func(n int) bool { return n == minGOGC }) {
		t.Errorf("GOGC is %d with %d live bytes, want %d", gogc(), len(kept), minGOGC)
	}
	runtime.KeepAlive(kept)
	if !reached(func(n int) bool { return n > minGOGC }) {
		t.Errorf("GOGC is %d after the bytes were released, want more than %d", gogc(), minGOGC)
	}
}
