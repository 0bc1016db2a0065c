package seal

import (
	"errors"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/secret"
)

const lease, other = "lse_0192f0c1a2b37c3d8e9f00112233aabb", "lse_0192f0c1a2b37c3d8e9f00112233aabc"

func testDataKey(t testing.TB, id string, fill byte) dataKey {
	t.Helper()
	b, err := newDataKey(id, []byte(strings.Repeat(string(fill), keySize)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b dataKey) openText(leaseID, sealed string) (secret.Secret, error) {
	id, body, err := split(sealed)
	if err != nil || id != b.id {
		return secret.Secret{}, errors.Join(ErrDamaged, err)
	}
	return b.open(leaseID, body)
}

func TestDataKeyOpensForItsLeaseAlone(t *testing.T) {
	b := testDataKey(t, "0011223344556677", 'k')
	text := b.seal(lease, secret.New("canary-handle"))
	if strings.Contains(text, "canary") {
		t.Fatal("the sealed text shows the secret")
	}
	if text == b.seal(lease, secret.New("canary-handle")) {
		t.Error("two sealings of one secret are equal")
	}
	if s, err := b.openText(lease, text); err != nil || s.Reveal() != "canary-handle" {
		t.Errorf("open = %v", err)
	}
	if _, err := b.openText(other, text); !errors.Is(err, ErrDamaged) {
		t.Errorf("another lease opens it: %v", err)
	}
	if _, err := testDataKey(t, b.id, 'x').openText(lease, text); !errors.Is(err, ErrDamaged) {
		t.Errorf("another key of the same id opens it: %v", err)
	}
	renamed := strings.Replace(text, b.id, "7766554433221100", 1)
	if _, err := testDataKey(t, "7766554433221100", 'k').openText(lease, renamed); !errors.Is(err, ErrDamaged) {
		t.Errorf("the key id is not bound: %v", err)
	}
}

// If any byte is altered, removed or added, the text does not open.
func TestDataKeyNoticesEveryChange(t *testing.T) {
	b := testDataKey(t, "0011223344556677", 'k')
	text := b.seal(lease, secret.New("canary-handle"))
	for i := range len(text) {
		for _, c := range []byte{'A', 'b', '_', '.', 0, '\n', text[i] ^ 1} {
			if c == text[i] {
				continue
			}
			bad := text[:i] + string(c) + text[i+1:]
			if _, err := b.openText(lease, bad); !errors.Is(err, ErrDamaged) {
				t.Errorf("byte %d as %q opens: %v", i, c, err)
			}
		}
		if _, err := b.openText(lease, text[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d opens: %v", i, err)
		}
	}
	for _, more := range []string{text + "A", text + "=", " " + text, text + "." + text, strings.Replace(text, ".", "..", 1)} {
		if _, err := b.openText(lease, more); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q opens: %v", more, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	b := testDataKey(f, "0011223344556677", 'k')
	f.Add(b.seal(lease, secret.New("x")))
	f.Add("s1.0011223344556677.AAAA")
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := b.openText(lease, text); err == nil && s.Reveal() != "x" {
			t.Errorf("%q opens", text)
		} else if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: %v is of no kind", text, err)
		}
	})
}
