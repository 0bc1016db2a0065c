package policy

import (
	_ "embed"
	"fmt"
)

//go:embed starter/starter.cedar
var starterText string

// starterName is the file name of the built-in policy in problems and explanations.
const starterName = "starter.cedar"

// StarterSource is the text of the built-in policy.
func StarterSource() string { return starterText }

// Starter returns the built-in policy, in force when none is configured: reading is granted at once
// for up to 15 minutes, other actions need approval by the group "approvers", and a task with
// violations gets no credential.
func Starter() *Set {
	set, err := Load(map[string][]byte{starterName: []byte(starterText)})
	if err != nil {
		panic(fmt.Sprintf("policy: the built-in policy does not load: %v", err)) // its own test would have failed
	}
	return set
}
