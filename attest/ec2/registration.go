package ec2

import (
	"errors"
	"slices"
)

// CheckRegistration implements attest.Registrar. Every other selector is the same for
// any number of instances, and whoever may launch one could show its document.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	id, has := selectors[selInstance]
	if !has {
		return errors.New("attest/ec2: this fits every instance that is launched like it; add instance_id, which RunInstances answers")
	}
	if !instanceForm.MatchString(id) {
		return errors.New("attest/ec2: instance_id is not the id of an instance, such as i-0123456789abcdef0: it fits none")
	}
	if account, has := selectors[selAccount]; has && !slices.Contains(a.cfg.Accounts, account) {
		return errors.New("attest/ec2: account is not one of the attestor's accounts: it fits no instance")
	}
	if region, has := selectors[selRegion]; has && a.cfg.Certificates[region] == "" {
		return errors.New("attest/ec2: the attestor has no certificate for the region: it fits no instance")
	}
	return nil
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	return []string{selInstance, selAccount, selRegion, "image_id", "instance_type", "architecture", "availability_zone", "private_ip"}
}

// CheckReattest implements attest.Reattester.
func (a *Attestor) CheckReattest() error {
	return errors.New("attest/ec2: a document is evidence in launch_window alone, so that no sandbox could attest again; lifetime is what bounds it")
}
