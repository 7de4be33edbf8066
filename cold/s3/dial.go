package s3

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/tierd/tierd/cold/internal/s3bucket"
	"github.com/tierd/tierd/internal/s3url"
	"github.com/tierd/tierd/tiering"
)

// defaultRegion is what servers other than AWS take for granted.
const defaultRegion = "us-east-1"

// dial makes a client. No request goes to S3 yet, but credentials are looked
// for, so that their absence is found now.
func dial(ctx context.Context, place s3url.Place, o s3bucket.Options) (s3bucket.Client, error) {
	load := []func(*config.LoadOptions) error{
		config.WithDefaultRegion(defaultRegion),
		config.WithLogger(logging.Nop{}),
	}
	if place.Region != "" {
		load = append(load, config.WithRegion(place.Region))
	}
	if place.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(place.Profile))
	}
	if place.Endpoint != "" {
		load = append(load, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, tiering.Invalidf("the AWS configuration cannot be read: %v", err)
	}
	if cfg.Credentials == nil {
		return nil, s3bucket.NoCredentials(nil)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, s3bucket.NoCredentials(err)
	}
	transport, err := s3bucket.NewTransport(o.Connections)
	if err != nil {
		return nil, err
	}
	return &client{api: s3.NewFromConfig(cfg, settings(place, transport)), bucket: place.Bucket, pool: transport}, nil
}

func settings(place s3url.Place, transport *s3bucket.Transport) func(*s3.Options) {
	return func(o *s3.Options) {
		if place.Endpoint != "" {
			o.BaseEndpoint = aws.String(place.Endpoint)
		}
		o.UsePathStyle = place.PathStyle
		o.HTTPClient = &http.Client{Transport: transport, CheckRedirect: refuseRedirect}
		o.Retryer = aws.NopRetryer{} // what may be tried again is decided above
		// By default CRC32 trailers are sent, which many servers refuse; a
		// SHA-256 goes with every object instead.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
	}
}

// refuseRedirect hands the redirect up as the answer: followed, it would be a
// request with a wrong signature.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
