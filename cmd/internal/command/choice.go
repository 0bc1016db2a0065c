package command

import (
	"errors"
	"slices"
	"strings"
)

// Choice is a flag value with a closed list of values. It implements
// pflag.Value.
type Choice struct {
	to     *string
	values []string
}

// NewChoice returns a flag value that sets to, whose present value is the
// default.
func NewChoice(to *string, values ...string) *Choice { return &Choice{to, values} }

// String implements the flag value.
func (c *Choice) String() string { return *c.to }

// Type implements the flag value: the text in --help.
func (c *Choice) Type() string { return strings.Join(c.values, "|") }

// Values returns the closed list, for completion and suggestions.
func (c *Choice) Values() []string { return c.values }

// Set implements the flag value.
func (c *Choice) Set(s string) error {
	if !slices.Contains(c.values, s) {
		return errors.New("choose " + strings.Join(c.values, ", "))
	}
	*c.to = s
	return nil
}
