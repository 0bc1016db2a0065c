package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
)

// passedOn are variables about the terminal and the locale, which identify
// neither the user nor the machine.
var passedOn = []string{"TERM", "COLORTERM", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ"}

// boxEnv returns the environment of a sandbox. It contains no variable of this
// process that is not named.
func (c runCommand) boxEnv(asked []string) ([]string, error) {
	env := []string{"PATH=" + box.Search, "HOME=" + box.Home, "USER=" + box.User, "LOGNAME=" + box.User, "SHELL=/bin/sh", "TMPDIR=/tmp"}
	for _, name := range passedOn {
		if value := c.env(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for _, line := range asked {
		name, value, whole := strings.Cut(line, "=")
		if !whole {
			value = c.env(name)
		}
		if name == "" || strings.ContainsAny(name, " \t\x00") || strings.Contains(value, "\x00") {
			return nil, usage("--env "+strconv.Quote(line)+" is not a variable", "write NAME=VALUE, or NAME to copy it from this environment")
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// plainEnv returns the environment of a command without a sandbox: that of this
// process, and a key file.
func (c runCommand) plainEnv(id keyfile.File, path string) ([]string, error) {
	if err := keyfile.Write(path, id); err != nil {
		return nil, err
	}
	peer, err := c.peer()
	if err != nil {
		return nil, err
	}
	// Variables of the operator's own key or server must not reach the command.
	env := slices.DeleteFunc(slices.Clone(c.environ), func(line string) bool { return strings.HasPrefix(line, "EBB_") })
	env = append(env, "EBB_URL="+peer.Issuer, "EBB_TASK_ID="+id.TaskID, "EBB_CLIENT_ID="+id.ClientID, "EBB_KEY_FILE="+path)
	if c.caFile != "" {
		env = append(env, "EBB_CA_FILE="+c.caFile)
	}
	if c.socket != "" {
		env = append(env, "EBB_SOCKET="+c.socket)
	}
	return env, nil
}
