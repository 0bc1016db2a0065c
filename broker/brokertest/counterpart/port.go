package counterpart

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// ports are the ports that this process has returned.
var ports sync.Map

// FreePort returns a free port for a server that needs a fixed one. The port is below
// Linux's range for automatic ports, so no connection and no listener on port 0 takes it
// in the meantime.
func FreePort(t interface{ Fatalf(string, ...any) }) int {
	for range 1000 {
		port := 12000 + rand.IntN(18000)
		if _, given := ports.LoadOrStore(port, true); given {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) //nolint:noctx // it is closed at once
		if err != nil {
			continue
		}
		_ = l.Close()
		return port
	}
	t.Fatalf("no port is free")
	return 0
}
