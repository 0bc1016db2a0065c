package oidc

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/web/signin"
)

const (
	maxGroups = 1000
	maxName   = 256 // bytes of one name, of whatever
)

// person is who claims are about.
func (o *OIDC) person(sub string, all claims) (signin.Person, error) {
	var p signin.Person
	value, err := o.subject(sub, all)
	if err != nil {
		return p, err
	}
	// The colon is in no id of a configured principal.
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
	// Under whichever of these names a runner knows the owner of a task, it is this person.
	for _, also := range []string{sub, value, text(all, "email"), text(all, "preferred_username"), text(all, "upn"), text(all, "oid")} {
		if plain(also) && !slices.Contains(p.Also, also) {
			p.Also = append(p.Also, also)
		}
	}
	return p, nil
}

// subject is what tells this person from all others.
func (o *OIDC) subject(sub string, all claims) (string, error) {
	value := sub
	if o.cfg.SubjectClaim != "sub" {
		value = text(all, o.cfg.SubjectClaim)
	}
	if !plain(value) || strings.TrimSpace(value) != value {
		return "", broker.E(broker.Forbidden, "The identity provider gave you no "+o.cfg.SubjectClaim+", by which this ebb tells people apart. Ask its administrator.", nil)
	}
	// Whoever may write any address into their profile could be anybody.
	if o.cfg.SubjectClaim == "email" && !mailVerified(all) {
		return "", broker.E(broker.Forbidden, "The identity provider has not verified your e-mail address (email_verified), by which this ebb tells people apart. Ask its administrator.", nil)
	}
	return value, nil
}

// mailVerified reports whether the provider has made sure that the address is the person's.
func mailVerified(all claims) bool {
	var verified bool
	return json.Unmarshal(all["email_verified"], &verified) == nil && verified
}

// overage reports that there are more groups than the provider writes into a token. Such
// a person is not one without groups.
func overage(all claims, claim string) bool {
	var names map[string]json.RawMessage
	var has bool
	_ = json.Unmarshal(all["_claim_names"], &names)
	return names[claim] != nil || names["groups"] != nil || json.Unmarshal(all["hasgroups"], &has) == nil && has || string(all["hasgroups"]) == `"true"`
}

func (o *OIDC) groups(all claims) ([]string, error) {
	if overage(all, o.cfg.GroupsClaim) {
		return nil, broker.E(broker.Forbidden, "You are in more groups than the identity provider writes into a token, so it left them all out. Its administrator can send only groups that are assigned to this application, "+
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
			return nil, errToken(errors.New("the groups are not a list of texts"))
		}
		list = []string{one}
	}
	if len(list) > maxGroups {
		return nil, broker.E(broker.Forbidden, "The identity provider named more than 1000 groups of yours. Its administrator should send only those that matter to this application.", nil)
	}
	for _, g := range list {
		if !plain(g) {
			return nil, errToken(errors.New("a group has no name that can be shown"))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// text is a claim that is a text, or "".
func text(all claims, name string) string {
	var s string
	if json.Unmarshal(all[name], &s) != nil {
		return ""
	}
	return s
}

func plain(s string) bool { return s != "" && len(s) <= maxName && jose.Plain(s) }
