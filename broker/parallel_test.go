//go:build !race

package broker_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// TestMain runs more tests at a time than there are cores, unless -parallel says
// otherwise: most of them wait for a broker that keeps real time. Under the race
// detector they work more than they wait.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
