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

	"github.com/ebb-broker/ebb/cmd/ebb-bench/internal/load"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/verify"
)

// offline measures web/verify in this process, and its signature checks alone.
// Every request has its own proof; its token is either new to the verifier or
// known.
func (b *run) offline(ctx context.Context, s sandbox, tokens []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	replay := verify.NewReplay(0, nil)
	v, err := verify.New(verify.Config{
		Issuer: b.Issuer, Resource: b.Resource, ClientID: b.ServerID, Key: b.Server, HTTP: b.HTTP, Replay: replay,
		RequireScopes: func(*http.Request) (scopes.Set, error) { return b.scope, nil },
	})
	if err != nil {
		return err
	}
	go func() { _ = v.Run(ctx) }()
	for end := time.Now().Add(10 * time.Second); v.Ready() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("web/verify is not ready within 10s: %w", v.Ready())
		}
	}
	tokens = tokens[:min(len(tokens), 3000)]
	for _, clients := range []int{1, 2} {
		for _, m := range []struct {
			op  string
			new bool
		}{{"verify, token new", true}, {"verify, token known", false}} {
			requests, err := b.used(s, tokens, replay.Memory().Nonce, m.new)
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
		tokens = tokens[len(tokens)/2:] // the next round needs tokens that the verifier has not seen
	}
	return nil
}

// used builds requests to the resource, each with its own proof. Each has its
// own token if each is set; else all have the same.
func (b *run) used(s sandbox, tokens []string, nonce string, each bool) ([]*http.Request, error) {
	half := max(len(tokens)/2, 1)
	out := make([]*http.Request, half)
	for i := range out {
		token := tokens[0]
		if each {
			token = tokens[i]
		}
		proof, err := s.proof(http.MethodGet, b.Resource, token, nonce)
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

// bare measures only the same signature checks, with the standard library.
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

var errSignature = errors.New("the signature is not valid")

// checkSignature checks the signature of a compact JWS and nothing else.
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
