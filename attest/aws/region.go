package aws

import (
	"regexp"
	"strings"
)

// regionForm is strict because a region becomes part of a host name. Isolated
// regions and the sovereign cloud, which have domains of their own, are not among them.
var regionForm = regexp.MustCompile(`^(af|ap|ca|cn|eu|il|me|mx|sa|us|us-gov)-(north|south|east|west|central|northeast|northwest|southeast|southwest)-[1-9]$`)

// partition is the AWS partition of a region. Account numbers are a partition's.
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// endpoint is the regional STS endpoint. There is no global one: signatures of
// any region would do there.
func endpoint(region string) string {
	domain := ".amazonaws.com"
	if partition(region) == "aws-cn" {
		domain = ".amazonaws.com.cn"
	}
	return "https://sts." + region + domain
}
