package oidc

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/signin"
)

const (
	maxGroups = 1000
	maxName   = 256 // bytes of one claim value
)

// person returns the person that the claims describe.
func (o *OIDC) person(sub string, all claims) (signin.Person, error) {
	var p signin.Person
	value, err := o.subject(sub, all)
	if err != nil {
		return p, err
	}
	// Ids of configured principals contain no colon, so the ids cannot collide.
	p.ID = o.cfg.Name + ":" + value
	if p.Groups, err = o.groups(all); err != nil {
		return p, err
	}
	p.Principal = o.Know(p.Principal)
	if name := text(all, o.cfg.NameClaim); plain(name) {
		p.Name = name
	}
	if mail := text(all, "email"); plain(mail) && mailVerified(all) {
		p.Mail = mail
	}
	// A runner may name the owner of a task by any of these names; all mean this person.
	for _, also := range []string{sub, value, text(all, "email"), text(all, "preferred_username"), text(all, "upn"), text(all, "oid")} {
		if plain(also) && !slices.Contains(p.Also, also) {
			p.Also = append(p.Also, also)
		}
	}
	return p, nil
}

// subject returns the claim that identifies the person.
func (o *OIDC) subject(sub string, all claims) (string, error) {
	value := sub
	if o.cfg.SubjectClaim != "sub" {
		value = text(all, o.cfg.SubjectClaim)
	}
	if people.CheckName(value) != nil {
		return "", broker.E(broker.Forbidden, "The identity provider sent no "+o.cfg.SubjectClaim+" of 1 to 256 printable ASCII characters, which this ebb identifies people by. Ask its administrator.", nil)
	}
	// Otherwise people who can edit the address in their profile could sign in as others.
	if o.cfg.SubjectClaim == "email" && !mailVerified(all) {
		return "", broker.E(broker.Forbidden, "The identity provider has not verified your e-mail address (email_verified), which this ebb identifies people by. Ask its administrator.", nil)
	}
	return value, nil
}

// mailVerified reports whether the provider has verified the person's e-mail address.
func mailVerified(all claims) bool {
	var verified bool
	return json.Unmarshal(all["email_verified"], &verified) == nil && verified
}

// overage reports that the person has more groups than the provider writes into
// a token. The missing claim then does not mean that there are no groups.
func overage(all claims, claim string) bool {
	var names map[string]json.RawMessage
	var has bool
	_ = json.Unmarshal(all["_claim_names"], &names)
	return names[claim] != nil || names["groups"] != nil || json.Unmarshal(all["hasgroups"], &has) == nil && has || string(all["hasgroups"]) == `"true"`
}

func (o *OIDC) groups(all claims) ([]string, error) {
	if overage(all, o.cfg.GroupsClaim) {
		return nil, broker.E(broker.Forbidden, "You are in more groups than the identity provider writes into a token, so it sent none. Its administrator can send only groups that are assigned to this application, "+
			"or app roles; then console.oidc.groups_claim names the claim.", nil)
	}
	raw := all[o.cfg.GroupsClaim]
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		var one string
		if json.Unmarshal(raw, &one) != nil {
			return nil, errToken(errors.New("the groups are not a list of strings"))
		}
		list = []string{one}
	}
	if len(list) > maxGroups {
		return nil, broker.E(broker.Forbidden, "The identity provider sent more than 1000 groups. Its administrator should send only the groups that this application needs.", nil)
	}
	for _, g := range list {
		if !plain(g) {
			return nil, errToken(errors.New("a group name is empty, longer than 256 bytes or has invisible characters"))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// text returns a string claim, or "".
func text(all claims, name string) string {
	var s string
	if json.Unmarshal(all[name], &s) != nil {
		return ""
	}
	return s
}

func plain(s string) bool { return s != "" && len(s) <= maxName && jose.Plain(s) }
