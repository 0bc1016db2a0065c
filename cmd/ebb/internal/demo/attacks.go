package demo

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/web/client"
)

// attacks shows that a proof works once, and that a token does not work without
// its key.
func (s *stage) attacks() error {
	s.act("What a thief gets")
	target := s.Shop.URL + "/orders/eu/42"
	r, err := s.sandbox.tell(order{Do: "show", Token: "read", Method: http.MethodGet, URL: target})
	if err := s.expect(good(r, err), "a careless tool logs a whole request, token and proof"); err != nil {
		return err
	}
	if err := s.expect(s.knock(target, r.Auth, r.Proof, http.StatusOK), "the logged request works once"); err != nil {
		return err
	}
	if err := s.expect(s.knock(target, r.Auth, r.Proof, http.StatusUnauthorized), "the same request is refused the second time: a proof works once"); err != nil {
		return err
	}
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return err
	}
	token := strings.TrimPrefix(r.Auth, "DPoP ")
	forged, err := dpop.NewProof(key, http.MethodGet, target, token, "", time.Now())
	if err != nil {
		return err
	}
	if err := s.expect(s.knock(target, r.Auth, forged, http.StatusUnauthorized), "the stolen token with the thief's own proof is refused"); err != nil {
		return err
	}
	return s.expect(s.knock(target, "Bearer "+token, "", http.StatusUnauthorized), "the stolen token as a bearer token is refused")
}

// knock sends one GET request to the shop and expects a status.
func (s *stage) knock(url, auth, proof string, want int) error {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", auth)
	if proof != "" {
		req.Header.Set("DPoP", proof)
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if resp.StatusCode != want {
		return fmt.Errorf("the shop answered %d, not %d", resp.StatusCode, want)
	}
	return nil
}
