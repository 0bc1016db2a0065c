package egress

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// carry hands one connection on. Nothing of it goes on when either side has ended it, or ctx has.
func carry(ctx context.Context, in net.Conn, out io.ReadWriteCloser) {
	end := func() { _, _ = in.Close(), out.Close() }
	defer end()
	defer context.AfterFunc(ctx, end)()
	back := &reply{Reader: out, late: time.AfterFunc(answerLate, end)}
	back.late.Stop() // until the box has hung up
	defer back.late.Stop()
	var all sync.WaitGroup
	all.Go(func() {
		splice(in, back)
		_ = in.SetReadDeadline(time.Now().Add(farewell)) // ebb hears no more
	})
	splice(out, in)
	back.hungUp.Store(true)
	back.late.Reset(answerLate)
	all.Wait()
}

// answerLate is how long nothing of a reply may come when the box has hung up. Of a machine that is
// gone without a word the kernel would wait for it much longer.
const answerLate = 2 * time.Minute

// reply is what comes back from ebb. late ends the connection, and is put off by all that comes.
type reply struct {
	io.Reader
	late   *time.Timer
	hungUp atomic.Bool // the box has nothing more to say
}

// Read implements io.Reader.
func (r *reply) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 && r.hungUp.Load() {
		r.late.Reset(answerLate)
	}
	return n, err
}

// splice copies until from ends, and says so to the other.
func splice(to io.Writer, from io.Reader) {
	_, err := io.Copy(to, from)
	if half, can := to.(interface{ CloseWrite() error }); can && err == nil {
		_ = half.CloseWrite()
		return
	}
	if c, is := to.(io.Closer); is {
		_ = c.Close()
	}
}
