package kms_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/awsapi/awstest"
	"github.com/ebb-broker/ebb/broker/seal/kms"
)

const (
	ownID     = "AKIDEXAMPLE"
	ownSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" //nolint:gosec // AWS's own example
	instance  = "0a1b2c3d"

	keyA   = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	keyB   = "arn:aws:kms:us-east-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab"
	keyOff = "arn:aws:kms:eu-central-1:111122223333:key/00000000-12ab-34cd-56ef-1234567890ab" // does not exist
)

// cloud is KMS as documented by AWS (API reference, JSON 1.1): it verifies every signature, stores
// keys and their materials, and opens a text only with its context and its key.
type cloud struct {
	t   testing.TB
	url string

	mu     sync.Mutex
	keys   map[string]*cloudKey // by ARN
	faults map[string][]fault   // by action; the last one stays
	calls  map[string]int
}

type cloudKey struct {
	arn       string
	state     string // KeyState
	deletion  time.Time
	materials []cipher.AEAD
	ids       []string // of the materials; "" = this KMS does not report them
	deny      []string // actions that the policy does not allow
	context   map[string]string
	usage     string
}

type fault int

const (
	pass fault = iota
	hang
	cut
	throttle
	broken
	garbage
	endless
	hollow
	swapped // an answer about another key
	short   // a plaintext of 16 bytes
	proxied // 404 of an API gateway
)

func newCloud(t testing.TB) *cloud {
	c := &cloud{t: t, keys: map[string]*cloudKey{}, faults: map[string][]fault{}, calls: map[string]int{}}
	for _, arn := range []string{keyA, keyB} {
		c.keys[arn] = &cloudKey{arn: arn, state: "Enabled", usage: "ENCRYPT_DECRYPT"}
		c.rotate(arn)
	}
	c.url = awstest.Serve(t, c)
	return c
}

func (c *cloud) config(key string, previous ...string) kms.Config {
	return kms.Config{
		Instance: instance, Key: key, Previous: previous, Endpoint: c.url, Timeout: "10s",
		AccessKeyFile: awstest.SecretFile(c.t, ownID), SecretKeyFile: awstest.SecretFile(c.t, ownSecret),
	}
}

func (c *cloud) wrapper(cfg kms.Config) *kms.Wrapper {
	c.t.Helper()
	w, err := kms.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	return w
}

// rotate gives a key its next material.
func (c *cloud) rotate(arn string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw := make([]byte, 64)
	_, _ = rand.Read(raw)
	block, err := aes.NewCipher(raw[:32])
	if err != nil {
		c.t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		c.t.Fatal(err)
	}
	k := c.keys[arn]
	k.materials, k.ids = append(k.materials, aead), append(k.ids, hex.EncodeToString(raw[32:]))
}

func (c *cloud) set(arn string, f func(*cloudKey)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.keys[arn])
}

func (c *cloud) fail(action string, fs ...fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[action] = fs
}

func (c *cloud) count(action string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[action]
}

type question struct {
	KeyID     string            `json:"KeyId"`
	Plaintext []byte            `json:"Plaintext"`
	Blob      []byte            `json:"CiphertextBlob"`
	Context   map[string]string `json:"EncryptionContext"`
	Algorithm string            `json:"EncryptionAlgorithm"`
}

// ServeHTTP implements http.Handler.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	action, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "TrentService.")
	if !ok || r.Method != http.MethodPost || r.URL.Path != "/" || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		c.t.Errorf("%s %s %v is no call of KMS", r.Method, r.URL, r.Header)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[action]++
	f := pass
	if fs := c.faults[action]; len(fs) > 0 {
		if f = fs[0]; len(fs) > 1 {
			c.faults[action] = fs[1:]
		}
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	switch f {
	case hang:
		c.mu.Unlock()
		<-r.Context().Done()
		c.mu.Lock()
		return
	case broken:
		refuse(w, 500, "KMSInternalException")
		return
	case throttle:
		refuse(w, 400, "ThrottlingException")
		return
	case garbage:
		_, _ = io.WriteString(w, "<html><body>It works!")
		return
	case proxied:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"message":"no Route matched"}`)
		return
	case hollow:
		_, _ = io.WriteString(w, "{}")
		return
	case endless:
		_, _ = io.WriteString(w, `{"x":"`)
		for chunk := strings.Repeat("y", 1<<16); r.Context().Err() == nil; {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
		return
	}
	if problem := awstest.Signed(r, body, ownID, ownSecret, "kms"); problem != "" {
		refuse(w, 400, "UnrecognizedClientException")
		return
	}
	var q question
	if err := json.Unmarshal(body, &q); err != nil {
		c.t.Errorf("%s: %v", action, err)
	}
	status, answer := c.act(action, q)
	if status != 200 {
		refuse(w, status, answer["__type"].(string)) //nolint:forcetypeassert // as act says
		return
	}
	switch f {
	case swapped:
		answer["KeyId"] = keyOff
	case short:
		answer["Plaintext"] = []byte("0123456789abcdef")
	}
	text, _ := json.Marshal(answer)
	if f == cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		text = text[:len(text)/2]
	}
	_, _ = w.Write(text)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Amzn-ErrorType", code)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"__type":"`+code+`","message":"as told"}`)
}

type members = map[string]any

func no(code string) (int, members) { return 400, members{"__type": code} }

func (c *cloud) act(action string, q question) (int, members) {
	k := c.keys[q.KeyID]
	if k == nil {
		return no("NotFoundException")
	}
	if slices.Contains(k.deny, action) || action != "DescribeKey" && k.context != nil && !maps.Equal(k.context, map[string]string{"ebb-instance": q.Context["ebb-instance"]}) {
		return no("AccessDeniedException")
	}
	last := len(k.materials) - 1
	if action == "DescribeKey" {
		m := members{"KeyId": k.arn[strings.LastIndex(k.arn, "/")+1:], "Arn": k.arn, "KeyState": k.state, "Enabled": k.state == "Enabled", "KeyUsage": k.usage, "KeySpec": "SYMMETRIC_DEFAULT"}
		if k.ids[last] != "" {
			m["CurrentKeyMaterialId"] = k.ids[last]
		}
		if !k.deletion.IsZero() {
			m["DeletionDate"] = float64(k.deletion.Unix())
		}
		return 200, members{"KeyMetadata": m}
	}
	switch k.state {
	case "Enabled":
	case "Disabled":
		return no("DisabledException")
	default:
		return no("KMSInvalidStateException")
	}
	if k.usage != "ENCRYPT_DECRYPT" {
		return no("InvalidKeyUsageException")
	}
	bound, _ := json.Marshal(q.Context) // sorted by name
	switch action {
	case "Encrypt":
		if len(q.Plaintext) == 0 || len(q.Plaintext) > 4096 || q.Algorithm != "SYMMETRIC_DEFAULT" {
			return no("ValidationException")
		}
		blob := append([]byte{byte(last)}, k.materials[last].Seal(nil, nil, q.Plaintext, append(bound, k.arn...))...)
		return 200, members{"KeyId": k.arn, "CiphertextBlob": blob, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}
	case "Decrypt":
		if len(q.Blob) < 2 || int(q.Blob[0]) > last {
			return no("InvalidCiphertextException")
		}
		text, err := k.materials[q.Blob[0]].Open(nil, nil, q.Blob[1:], append(bound, k.arn...))
		if err != nil {
			return no("InvalidCiphertextException")
		}
		return 200, members{"KeyId": k.arn, "Plaintext": text, "EncryptionAlgorithm": "SYMMETRIC_DEFAULT", "KeyMaterialId": k.ids[q.Blob[0]]}
	}
	c.t.Errorf("an action outside of the policy: %s", action)
	return no("AccessDeniedException")
}
