package ec2

import (
	"errors"
	"slices"
)

// CheckRegistration implements attest.Registrar. It requires instance_id. Every other
// selector is the same for any number of instances, so each user with the right to launch one
// could attest with its document.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	id, has := selectors[selInstance]
	if !has {
		return errors.New("attest/ec2: this matches every instance launched in the same way; add instance_id, which RunInstances returns")
	}
	if !instanceForm.MatchString(id) {
		return errors.New("attest/ec2: instance_id does not have the form of an instance id, such as i-0123456789abcdef0, so it matches no instance")
	}
	if account, has := selectors[selAccount]; has && !slices.Contains(a.cfg.Accounts, account) {
		return errors.New("attest/ec2: account is not one of the attestor's accounts, so it matches no instance")
	}
	if region, has := selectors[selRegion]; has && a.cfg.Certificates[region] == "" {
		return errors.New("attest/ec2: the attestor has no certificate for the region, so it matches no instance")
	}
	return nil
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	return []string{selInstance, selAccount, selRegion, "image_id", "instance_type", "architecture", "availability_zone", "private_ip"}
}

// CheckReattest implements attest.Reattester.
func (a *Attestor) CheckReattest() error {
	return errors.New("attest/ec2: a document is accepted only within launch_window, so a sandbox cannot attest again; set lifetime instead of reattest")
}
