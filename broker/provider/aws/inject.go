package aws

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// Injects implements provider.Injector: for objects and listings of S3. Host, method and path do
// not identify the requests of other statements, nor copies, whose source is in a header.
func (d *Driver) Injects(set scopes.Set) bool {
	return d.Check(set) == nil && !slices.ContainsFunc(set.Scopes(), func(s scopes.Scope) bool {
		_, err := placeOf(s)
		return err != nil || !slices.Contains([]string{actRead, actWrite, actList, actDelete}, s.Action())
	})
}

// signable is what a request asks of S3, and its payload, if it can be signed anew.
func (d *Driver) signable(r *http.Request) (q s3Request, payload string, err error) {
	if q, err = d.readS3(r); err != nil {
		return q, "", err
	}
	if said := r.Header.Get("Authorization"); said != "" {
		if m := claimForm.FindStringSubmatch(said); m == nil || m[1] != q.region || m[2] != s3Service {
			return q, "", provider.Elsewhere("it is signed for another service or region than it goes to")
		}
	}
	payload = unsigned
	if values := r.Header.Values(payloadHeader); len(values) > 0 {
		payload = values[0]
		if len(values) > 1 || !payloadForm.MatchString(payload) {
			return q, "", provider.Elsewhere("its payload is signed chunk by chunk, or not at all as S3 has it")
		}
	}
	return q, payload, nil
}

// ScopesFor implements provider.Injector: the narrowest scope that a role serves.
func (d *Driver) ScopesFor(name string, r *http.Request) []scopes.Scope {
	q, _, err := d.signable(r)
	if err != nil {
		return nil
	}
	at := q.key
	if q.action == actList {
		at = q.prefix
	}
	for _, s := range provider.Enclosing(name, append([]string{q.bucket}, strings.Split(at, "/")...), q.action) {
		if set, err := scopes.NewSet(s); err == nil && q.of(s) && d.Injects(set) {
			return []scopes.Scope{s}
		}
	}
	return nil
}

// claimForm is what a client of ours says of its signature, which is worth nothing: it has
// signed with a key that it made up. It says what the client believes to talk to.
var claimForm = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=[^/, ]+/[0-9]{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request,`)

// payloadForm is a payload's hash, declared by the client and checked by S3, or one of the two
// words for a payload that only TLS protects. Streams whose chunks are signed, with the key
// that the client made up, cannot be sent on.
var payloadForm = regexp.MustCompile(`^(?:[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER)$`)

const (
	payloadHeader = "X-Amz-Content-Sha256"
	unsigned      = "UNSIGNED-PAYLOAD"
)

// Inject implements provider.Injector: it removes the client's signature and signs the whole
// request from scratch (AWS Signature Version 4), with the session of the lease. Presigned
// URLs never get here: egress refuses a query that holds a credential.
func (d *Driver) Inject(ctx context.Context, r *http.Request, t provider.Target) error {
	h, err := readHandle(t.Handle)
	if err != nil || h.Key == nil || !t.Now.Before(t.ExpiresAt) {
		return errors.Join(errors.New("aws: there is no session to sign with, or its lease is over"), err)
	}
	q, payload, err := d.signable(r)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(t.Scopes.Scopes(), q.of) {
		return provider.Elsewhere("it is not for what the lease's scopes are for")
	}
	out := r.Clone(ctx)
	for name := range out.Header {
		if slices.Contains([]string{"authorization", "date", "x-amz-date", "x-amz-security-token"}, stricturl.Fold(name)) {
			delete(out.Header, name)
		}
	}
	provider.SetHeader(out, payloadHeader, payload)
	key := sdk.Credentials{AccessKeyID: h.Key.ID, SecretAccessKey: h.Key.Secret, SessionToken: h.Key.Token}
	// A signer of its own: one that is shared signs with the options of another request.
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	if err := signer.SignHTTP(ctx, key, out, payload, s3Service, q.region, d.now()); err != nil {
		return errors.New("aws: the request could not be signed") // err can hold parts of it
	}
	r.Header = out.Header
	return nil
}
