package main

import (
	"slices"
	"strconv"
	"strings"

	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/keyfile"
)

// passedOn are variables that say how to talk to a person, and nothing of who that is.
var passedOn = []string{"TERM", "COLORTERM", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ"}

// boxEnv is the environment of a box: nothing of this process's but what is named.
func (c *cli) boxEnv(asked []string) ([]string, error) {
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
			return nil, usage("--env "+strconv.Quote(line)+" is no variable", "write NAME=VALUE, or NAME to pass yours on")
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// plainEnv is what a child without a box gets: this process's environment, and a key file.
func (c *cli) plainEnv(id keyfile.File, path string) ([]string, error) {
	if err := keyfile.Write(path, id); err != nil {
		return nil, err
	}
	peer, err := c.peer()
	if err != nil {
		return nil, err
	}
	// What points at the operator's own key or server must not reach the child.
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
