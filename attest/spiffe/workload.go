package spiffe

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// checkSocket accepts unix:///path alone. The Workload API over TCP is neither
// encrypted nor authenticated: whoever takes the port says what the keys are.
func checkSocket(addr string) error {
	u, err := url.Parse(addr)
	if err != nil || u.Scheme != "unix" || u.Host != "" || u.Opaque != "" || len(u.Path) < 2 || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("workload_api is not the path of a socket; write it like unix:///run/spire/agent.sock")
	}
	return workloadapi.ValidateAddress(addr)
}

// workloadReader asks a SPIFFE agent for the bundles that it gives to ebb: those
// of its own trust domain and of those it federates with. ebb needs an entry of
// its own there.
func workloadReader(td spiffeid.TrustDomain, addr string) (reader, error) {
	if err := checkSocket(addr); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (_ *bundle, _ time.Duration, err error) {
		client, err := workloadapi.New(ctx, workloadapi.WithAddr(addr))
		if err != nil {
			return nil, 0, err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		certs, err := client.FetchX509Bundles(ctx)
		if err != nil {
			return nil, 0, err
		}
		keys, err := client.FetchJWTBundles(ctx)
		if err != nil {
			return nil, 0, err
		}
		// An agent that does not know the trust domain cannot take its keys back.
		x, err := certs.GetX509BundleForTrustDomain(td)
		if err != nil {
			return nil, 0, err
		}
		j, err := keys.GetJWTBundleForTrustDomain(td)
		if err != nil {
			return nil, 0, err
		}
		jwt, err := jwtKeys(j.JWTAuthorities())
		if err != nil {
			return nil, 0, err
		}
		b, err := newBundle(td, jwt, x.X509Authorities())
		return b, defaultRefresh, err
	}, nil
}
