package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	t.Parallel()
	for kept, want := range map[uint64]int{0: 400, 1 << 20: 400, 10 << 20: 400, 20 << 20: 200, 40 << 20: 100, 1 << 30: 100} {
		if got := percent(kept); got != want {
			t.Errorf("%d MiB: %d, want %d", kept>>20, got, want)
		}
	}
}

// GOGC follows the live memory, and is restored after stop.
func TestTuneCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	gogc := func() int {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64())
	}
	before := gogc()
	stop := tuneCollector()
	defer stop()
	kept := make([]byte, 2*garbage)
	for end := time.Now().Add(patience); time.Now().Before(end); { // a goroutine of the runtime sets it
		if runtime.GC(); gogc() == noMoreGOGC {
			break
		}
	}
	if gogc() != noMoreGOGC {
		t.Errorf("%d with %d bytes that are kept", gogc(), len(kept))
	}
	runtime.KeepAlive(kept)
	if stop(); gogc() != before {
		t.Errorf("%d, before %d", gogc(), before)
	}
	runtime.GC()
	runtime.GC()
	if gogc() != before {
		t.Errorf("%d after the end, before %d", gogc(), before)
	}
}
