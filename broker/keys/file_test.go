package keys_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/keys"
)

var update = flag.Bool("update", false, "rewrite golden files")

func goldenKey(t testing.TB) keys.Key {
	t.Helper()
	k, err := keys.NewKey(ed25519.NewKeyFromSeed(make([]byte, 32)), start, start.Add(time.Hour), start.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGolden(t *testing.T) {
	t.Parallel()
	key, err := keys.EncodeKey(goldenKey(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{"testdata/sign.key": key, "testdata/secret.key": keys.EncodeSecret(secret())} {
		if *update {
			if err := os.WriteFile(name, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the stored encoding changed:\n%s", name, got)
		}
	}
	back, err := keys.DecodeKey(key)
	if err != nil || back.KID != goldenKey(t).KID || !back.RetireAt.Equal(start.Add(24*time.Hour)) {
		t.Errorf("decode = %+v, %v", back, err)
	}
}

func TestRSARoundTrip(t *testing.T) {
	t.Parallel()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text, err := keys.EncodeKey(newKey(t, r, start))
	if err != nil {
		t.Fatal(err)
	}
	if back, err := keys.DecodeKey(text); err != nil || back.Alg != "RS256" {
		t.Errorf("got %v, %v", back.Alg, err)
	}
}

func TestDecodeKeyRefuses(t *testing.T) {
	t.Parallel()
	good, err := keys.EncodeKey(goldenKey(t))
	if err != nil {
		t.Fatal(err)
	}
	other, err := keys.EncodeKey(newKey(t, newSigner(t), start))
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(good), "-----BEGIN")
	_, foreign, _ := strings.Cut(string(other), "-----BEGIN")
	s := string(good)
	for name, tc := range map[string]struct{ text, want string }{
		"empty":          {"", "empty"},
		"foreign":        {"-----BEGIN PRIVATE KEY-----\n", "not a signing key"},
		"newer":          {strings.Replace(s, "version 1", "version 2", 1), "newer ebb"},
		"head only":      {head, "cut off"},
		"cut in the key": {s[:len(s)-40], "cut off or damaged"},
		"zeroed tail":    {s[:len(head)+30] + strings.Repeat("\x00", 40), "cut off or damaged"},
		"other key":      {head + "-----BEGIN" + foreign, "do not belong together"},
		"date":           {strings.Replace(s, "created: 2026", "created: 20x6", 1), "not a date"},
		"trailing":       {s + "\n", "changed by hand"},
		"second block":   {s + s, "changed by hand"},
		"key damaged":    {strings.Replace(s, "MC4CAQAw", "MC4CAQAx", 1), "damaged"},
	} {
		_, err := keys.DecodeKey([]byte(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

func FuzzDecodeKey(f *testing.F) {
	good, err := keys.EncodeKey(goldenKey(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-9])
	f.Add(bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")))
	f.Add([]byte("ebb signing key, version 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := keys.DecodeKey(text)
		if err != nil {
			return
		}
		again, err := keys.EncodeKey(k)
		if err != nil || !bytes.Equal(again, text) {
			t.Fatalf("accepted a file that prints differently: %v\n%q\n%q", err, text, again)
		}
	})
}

func FuzzDecodeSecret(f *testing.F) {
	good := keys.EncodeSecret(secret())
	f.Add(good)
	f.Add(good[:20])
	f.Add(append(good, '\n'))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := keys.DecodeSecret(text)
		if err == nil && !bytes.Equal(keys.EncodeSecret(s), text) {
			t.Fatal("accepted a file that prints differently")
		}
	})
}
