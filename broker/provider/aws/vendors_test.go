package aws

import "testing"

// A session must not get a credential that its end does not end, by any spelling.
func TestActionsThatHandOutCredentials(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"sts:AssumeRole", "iam:PassRole", "s3:GetDataAccess", "s3:getdataaccess", "S3:GetDataAccess", "s3:*", "s3:Get*", "s3:Get????Access", "s3express:CreateSession",
		"ecr:GetAuthorizationToken", "ecr:*", "ecr:*Token", "ecr-public:GetAuthorizationToken", "codeartifact:Get*", "redshift:GetClusterCredentials",
		"redshift:GetClusterCredentialsWithIAM", "redshift:*", "redshift-serverless:GetCredentials", "lakeformation:GetTemporaryGlueTableCredentials",
		"lakeformation:GetDataAccess", "cognito-identity:GetCredentialsForIdentity", "cognito-identity:GetOpenIdToken", "cognito-identity:G*", "*", "*:*",
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
