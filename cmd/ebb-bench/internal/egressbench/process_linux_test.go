package egressbench

import (
	"os"
	"testing"
	"time"
)

// Processor time and memory are those of the requested process.
func TestProcess(t *testing.T) {
	t.Parallel()
	before, err := processorOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; {
		if time.Since(begin) > time.Minute {
			t.Fatal("a loop uses no processor time")
		}
		after, err := processorOf(os.Getpid(), os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after >= 2*before+2*tick {
			break
		}
	}
	if n, err := residentOf(os.Getpid()); err != nil || n < 1<<20 {
		t.Errorf("resident %d: %v", n, err)
	}
	if _, err := processorOf(-1); err == nil {
		t.Error("a process that is not there has used something")
	}
}
