package aws

import (
	"regexp"
	"strings"
)

// regionForm matches regions. It is strict because the region becomes part of a host
// name. Isolated regions and the European Sovereign Cloud have other domains and do not
// match.
var regionForm = regexp.MustCompile(`^(af|ap|ca|cn|eu|il|me|mx|sa|us|us-gov)-(north|south|east|west|central|northeast|northwest|southeast|southwest)-[1-9]$`)

// partition returns the AWS partition of a region. Account numbers are unique within a
// partition.
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// endpoint returns the regional STS endpoint. The global endpoint is not used, because
// it accepts signatures for any region.
func endpoint(region string) string {
	domain := ".amazonaws.com"
	if partition(region) == "aws-cn" {
		domain = ".amazonaws.com.cn"
	}
	return "https://sts." + region + domain
}
