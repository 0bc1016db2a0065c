package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"ebb/broker"
	"ebb/broker/clientcert"
	"ebb/broker/provider"
)

// certificate is what is shown to the upstream of a request when it is connected to, nil =
// nothing. Most providers show nothing.
func certificate(ctx context.Context, use broker.Usable, r *http.Request) (*clientcert.Certificate, error) {
	p, is := use.Injector.(provider.Presenter)
	if !is {
		return nil, nil
	}
	c, err := p.Presents(ctx, r, use.Target)
	switch {
	case errors.Is(err, clientcert.ErrUnusable):
		return nil, deny(Certificate, err)
	case errors.Is(err, provider.ErrElsewhere):
		return nil, deny(NotAllowed, err)
	case err != nil:
		return nil, deny(Doubt, err)
	}
	return c, nil
}

// show is what a handshake of the pool shows to an upstream that asks, which it is asked for when
// the upstream has proved who it is (RFC 8446 section 4.4.2, RFC 5246 section 7.4.6). A key is
// there only while a request is under way.
func (p *pool) show(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	p.asked.Store(true)
	if p.key.certificate == (poolKey{}).certificate {
		return new(tls.Certificate), nil
	}
	if c := p.shown.Load(); c != nil {
		return c, nil
	}
	return nil, ErrOver
}

// refused reports that an upstream takes no connection with what it was shown: it asked for a
// certificate, and then said no (an alert, RFC 8446 section 6.2) or hung up without an answer.
func (p *pool) refused(err error) bool {
	if !p.asked.Load() {
		return false
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" {
		return true
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	return (ended || strings.Contains(err.Error(), notEstablished)) && !p.answered.Load()
}

// notEstablished is what net/http says of a connection of HTTP/2 that ended before its server had said
// anything, when the request was not on it yet. It has no name for it.
const notEstablished = "http2: client conn could not be established"

// trip sends a request by the pool.
func (p *pool) trip(r *http.Request) (*http.Response, error) {
	res, err := p.RoundTrip(r)
	if err == nil {
		p.answered.Store(true)
		return res, nil
	}
	refused := p.refused(err)
	if err = unquoted(err); refused {
		err = deny(Certificate, err)
	}
	return nil, err
}
