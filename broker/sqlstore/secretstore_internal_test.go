package sqlstore

import (
	"testing"

	"github.com/ebb-broker/ebb/broker/secretstore"
)

// A row is not kept when it was read before, during or across a change: it may be the old one.
func TestKeptSecretsReadDuringChange(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(k *keptSecrets) (changes int){
		"before":            func(k *keptSecrets) int { _, _, n := k.get("n"); k.forget()(); return n },
		"until within":      func(k *keptSecrets) int { _, _, n := k.get("n"); k.forget(); return n },
		"within":            func(k *keptSecrets) int { k.forget(); _, _, n := k.get("n"); return n },
		"from within":       func(k *keptSecrets) int { done := k.forget(); _, _, n := k.get("n"); done(); return n },
		"between two":       func(k *keptSecrets) int { done := k.forget(); k.forget()(); _, _, n := k.get("n"); done(); return n },
		"within the second": func(k *keptSecrets) int { k.forget()(); k.forget(); _, _, n := k.get("n"); return n },
	} {
		k := keptSecrets{rows: map[string]secretstore.Row{}}
		k.put(secretstore.Row{Name: "n", Sealed: "old"}, read(&k))
		if _, is, _ := k.get("n"); is {
			t.Errorf("a row that was read %s a change was kept", name)
		}
	}
	k := keptSecrets{rows: map[string]secretstore.Row{}}
	k.forget()()
	_, _, n := k.get("n")
	k.put(secretstore.Row{Name: "n"}, n)
	if _, is, _ := k.get("n"); !is {
		t.Error("a row that was read after a change was not kept")
	}
}
