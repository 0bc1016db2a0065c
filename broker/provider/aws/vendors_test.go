package aws

import (
	"testing"
)

// TestActionsThatHandOutCredentials: a session must not obtain, by any spelling of an action,
// a credential that outlives its revocation.
func TestActionsThatHandOutCredentials(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"sts:AssumeRole", "iam:PassRole", "s3:GetDataAccess", "s3:getdataaccess", "S3:GetDataAccess", "s3:*", "s3:Get*", "s3:Get????Access", "s3express:CreateSession",
		"ecr:GetAuthorizationToken", "ecr:*", "ecr:*Token", "ecr-public:GetAuthorizationToken", "codeartifact:Get*", "redshift:GetClusterCredentials",
		"redshift:GetClusterCredentialsWithIAM", "redshift:*", "redshift-serverless:GetCredentials", "lakeformation:GetTemporaryGlueTableCredentials",
		"lakeformation:GetDataAccess", "cognito-identity:GetCredentialsForIdentity", "cognito-identity:GetOpenIdToken", "cognito-identity:G*", "*", "*:*",
		"elasticmapreduce:Get*", "gamelift:RequestUploadCredentials", "airflow:*", "deadline:AssumeQueueRoleForUser", "lightsail:CreateBucketAccessKey", "sagemaker:*",
	} {
		if !forbidden(a) {
			t.Errorf("%s is allowed", a)
		}
	}
	for _, a := range []string{"s3:GetObject*", "s3:PutObject", "ecr:BatchGetImage", "dynamodb:*", "kms:Decrypt", "redshift:DescribeClusters", "lakeformation:ListResources"} {
		if forbidden(a) {
			t.Errorf("%s is refused", a)
		}
	}
}

// TestNoPolicySaysWhatIsForbidden: the driver never sends a forbidden action in a policy, even if
// the check of the configuration has not refused it.
func TestNoPolicySaysWhatIsForbidden(t *testing.T) {
	t.Parallel()
	d, err := New(config())
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"sts:AssumeRole", "*", "ecr:*"} {
		if text, err := d.render([]permission{{actions: []string{"s3:GetObject", action}, resources: []string{"*"}}}, deadline); err == nil {
			t.Errorf("%s: %s", action, text)
		}
	}
}
