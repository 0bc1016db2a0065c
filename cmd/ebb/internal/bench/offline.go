package bench

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ebb/scopes"
	"ebb/web/load"
	"ebb/web/verify"
)

// offline measures web/verify in this process, and what its signature checks
// cost alone: every request has a proof of its own, and its token is new to the
// verifier or known to it.
func (b *run) offline(ctx context.Context, s sandbox, tokens []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v, err := verify.New(verify.Config{
		Issuer: b.Issuer, Resource: b.Resource, ClientID: b.ServerID, Key: b.Server, HTTP: b.HTTP,
		RequireScopes: func(*http.Request) (scopes.Set, error) { return b.scope, nil },
	})
	if err != nil {
		return err
	}
	go func() { _ = v.Run(ctx) }()
	for end := time.Now().Add(10 * time.Second); v.Ready() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("web/verify does not get ready: %w", v.Ready())
		}
	}
	tokens = tokens[:min(len(tokens), 3000)]
	for _, clients := range []int{1, 2} {
		for _, m := range []struct {
			op  string
			new bool
		}{{"verify, token new", true}, {"verify, token known", false}} {
			requests, err := b.used(s, tokens, m.new)
			if err != nil {
				return err
			}
			r := inProcess(m.op, clients, len(requests), func(i int) error {
				_, err := v.Verify(requests[i])
				return err
			})
			b.add(r, "in this process, web/verify")
			bare, err := b.bare(s, clients, requests, m.new)
			if err != nil {
				return err
			}
			b.add(bare, "in this process, only the signatures of the line above")
		}
		tokens = tokens[len(tokens)/2:] // the next round needs tokens that are new again
	}
	return nil
}

// used are requests to the resource: a proof for each, with a token for each or
// the same one for all.
func (b *run) used(s sandbox, tokens []string, each bool) ([]*http.Request, error) {
	half := max(len(tokens)/2, 1)
	out := make([]*http.Request, half)
	for i := range out {
		token := tokens[0]
		if each {
			token = tokens[i]
		}
		proof, err := s.proof(http.MethodGet, b.Resource, token, "")
		if err != nil {
			return nil, err
		}
		if out[i], err = http.NewRequest(http.MethodGet, b.Resource, nil); err != nil {
			return nil, err
		}
		out[i].Header.Set("Authorization", "DPoP "+token)
		out[i].Header.Set("DPoP", proof)
	}
	return out, nil
}

// bare checks the same signatures with the standard library and nothing around it.
func (b *run) bare(s sandbox, clients int, requests []*http.Request, tokenToo bool) (load.Result, error) {
	issuer, err := b.issuerKeys()
	if err != nil {
		return load.Result{}, err
	}
	op := "bare, 1 signature"
	if tokenToo {
		op = "bare, 2 signatures"
	}
	return inProcess(op, clients, len(requests), func(i int) error {
		if err := checkSignature(requests[i].Header.Get("DPoP"), s.key.Public()); err != nil || !tokenToo {
			return err
		}
		token := requests[i].Header.Get("Authorization")[len("DPoP "):]
		for _, k := range issuer.Keys() {
			if checkSignature(token, k.Public) == nil {
				return nil
			}
		}
		return errSignature
	}), nil
}

var errSignature = errors.New("the signature is not good")

// checkSignature checks a compact JWS and looks at nothing else.
func checkSignature(token string, pub crypto.PublicKey) error {
	at := strings.LastIndexByte(token, '.')
	sig, err := base64.RawURLEncoding.DecodeString(token[at+1:])
	if err != nil {
		return err
	}
	good := false
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		sum := sha256.Sum256([]byte(token[:at]))
		good = len(sig) == 64 && ecdsa.Verify(k, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
	case ed25519.PublicKey:
		good = ed25519.Verify(k, []byte(token[:at]), sig)
	case *rsa.PublicKey:
		sum := sha256.Sum256([]byte(token[:at]))
		good = rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], sig) == nil
	}
	if !good {
		return errSignature
	}
	return nil
}

// inProcess runs n calls on several goroutines.
func inProcess(op string, clients, n int, call func(i int) error) load.Result {
	latencies := make([]time.Duration, n)
	failed := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range clients {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				begin := time.Now()
				failed[i] = call(i)
				latencies[i] = time.Since(begin)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	good := latencies[:0]
	r := load.Result{}
	for i, err := range failed {
		if err == nil {
			good = append(good, latencies[i])
			continue
		}
		r.Errors++
		if r.First == "" {
			r.First = err.Error()
		}
	}
	sum := load.Summary(op, clients, took, good)
	sum.Errors, sum.First = r.Errors, r.First
	return sum
}
