package aws

import (
	"testing"

	"github.com/ebb-broker/ebb/broker/secret"
)

// FuzzDenials parses an arbitrary policy document from IAM and writes it again. No deny is lost,
// and a second pass changes nothing.
func FuzzDenials(f *testing.F) {
	d := newDenials()
	h := handle{Role: cloudRoleA, Session: "ebb-0a1b2c3d-0192f0c1a2b37c3d0000000000000001", By: byUserID, Task: "tsk_1", Issued: 1767323045, Until: 1767323345}
	d.add(h)
	h.By = bySourceIdentity
	d.add(h)
	d.tasks["tsk_1"] = cutoff{1767323050, 1767323345}
	d.role = cutoff{1767323040, 1767323345}
	f.Add(d.String())
	f.Add(`{"Version":"2012-10-17","Statement":{"Sid":"u1767323345","Effect":"Deny","Action":"*","Resource":"*"}}`)
	f.Add(`{"Statement":[{"Sid":"r1767323345b1767323040","Effect":"Deny","Action":"*","Resource":"*","Condition":{}}]}`)
	f.Add(`{"Statement":[1,"x",null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := readDenials(text)
		if err != nil {
			return
		}
		once := d.String()
		again, err := readDenials(once)
		if err != nil || again.String() != once {
			t.Fatalf("%v\n%s\n%s", err, once, again.String())
		}
		if !again.holds(d) || len(again.foreign) != len(d.foreign) {
			t.Fatal("a deny was lost")
		}
	})
}

// FuzzHandle: a handle that readHandle accepts is written again in the same form.
func FuzzHandle(f *testing.F) {
	f.Add(`{"role":"` + cloudRoleA + `","session":"ebb-0a1b2c3d-0192f0c1a2b37c3d0000000000000001","by":"aws:userid","issued":1767323045,"until":1767323345}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := readHandle(secret.New(text))
		if err != nil {
			return
		}
		s, err := h.secret()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := readHandle(s); err != nil || again != h || !patternForms[h.By].MatchString(h.pattern()) {
			t.Fatalf("%+v %+v %v", h, again, err)
		}
	})
}
