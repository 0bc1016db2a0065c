package counterpart

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// ports are those that this process has given out.
var ports sync.Map

// FreePort is a port of this machine for a server that has to be told one. No
// connection and no listener that asks for any port gets it meanwhile: it is below
// those that Linux gives out by itself.
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
