package history

import (
	"embed"
	"io/fs"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/policysource"
)

//go:embed policies/*.cedar draft/*.cedar
var policies embed.FS

// DraftPolicies returns the policies that Operator proposes at the end of the
// day.
func DraftPolicies() ([]policyset.File, error) {
	dir, err := fs.Sub(policies, "draft")
	if err != nil {
		return nil, err
	}
	return policysource.ReadDir(dir)
}

// Policies returns the policies that apply on the day.
func Policies() (fs.FS, error) { return fs.Sub(policies, "policies") }

// IDs of the people of the day.
const (
	Runner    = "ci"  // opens tasks
	Mia       = "mia" // approver: web-maintainers
	Tom       = "tom" // approver: web-maintainers, finance
	Sam       = "sam" // approver: finance
	Auditor   = "eve"
	Operator  = "ola"
	Operator2 = "uma"
)

// People returns the principals that the ebb must know.
func People() []broker.Principal {
	approver := []broker.Role{broker.RoleApprover}
	return []broker.Principal{
		{ID: Runner, Roles: []broker.Role{broker.RoleRunner}},
		{ID: Mia, Roles: approver, Groups: []string{"web-maintainers"}},
		{ID: Tom, Roles: approver, Groups: []string{"finance", "web-maintainers"}},
		{ID: Sam, Roles: approver, Groups: []string{"finance"}},
		{ID: Auditor, Roles: []broker.Role{broker.RoleAuditor}},
		{ID: Operator, Roles: []broker.Role{broker.RoleOperator, broker.RoleAuditor}},
		{ID: Operator2, Roles: []broker.Role{broker.RoleOperator}},
	}
}
