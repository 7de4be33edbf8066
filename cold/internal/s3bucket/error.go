package s3bucket

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tierd/tierd/tiering"
)

// RequestError is an answer that is no success, or says that there was none.
type RequestError struct {
	Status  int    // of the HTTP answer; 0 when there was none
	Code    string // of S3, such as NoSuchKey; "" when the answer has none
	Message string
	Err     error // the library's own
}

// Error says what the server said, and what to do where that is known.
func (f *RequestError) Error() string {
	text := f.Message
	if f.Status != 0 || f.Code != "" {
		text = "the server answered"
		if f.Status != 0 {
			text += " " + strconv.Itoa(f.Status)
		}
		if f.Code != "" {
			text += " " + f.Code
		}
		if f.Message != "" {
			text += ": " + f.Message
		}
	} else if f.Err != nil {
		text = f.Err.Error()
	}
	if hint := f.hint(); hint != "" {
		text += " (" + hint + ")"
	}
	return text
}

// Unwrap returns the library's error.
func (f *RequestError) Unwrap() error { return f.Err }

// hint is what an operator can do about it.
func (f *RequestError) hint() string {
	switch f.Code {
	case "RequestTimeTooSkewed", "RequestExpired":
		return "the clocks of this machine and of the S3 server are too far apart: here it is " + time.Now().UTC().Format(time.RFC3339) + "; set the one that is wrong"
	case "SignatureDoesNotMatch":
		return "the secret key is wrong, or a proxy changed the request"
	case "InvalidAccessKeyId":
		return "the server does not know the access key"
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "InvalidRegion", "IllegalLocationConstraintException":
		return "the bucket is in another region: add region=NAME to the URL"
	}
	switch f.Status {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return "the bucket is in another region or at another endpoint: add region=NAME or endpoint=URL"
	case http.StatusForbidden:
		if f.Code != "AccessDenied" && f.Code != "Forbidden" && f.Code != "" {
			return ""
		}
		return "tierd needs s3:GetObject, PutObject, DeleteObject, DeleteObjectVersion, ListBucket and ListBucketVersions"
	}
	return ""
}

// absent reports whether the answer is that the key, or the bucket, is not
// there. Which of the two, a 404 alone does not tell.
func (f *RequestError) absent() bool { return f.Status == http.StatusNotFound }

// taken reports whether a conditional write was refused because the name is.
func (f *RequestError) taken() bool {
	return f.Status == http.StatusPreconditionFailed || f.Status == http.StatusNotModified
}

// forbidden reports whether the credentials are good but do not allow it.
func (f *RequestError) forbidden() bool {
	return f.Status == http.StatusForbidden && f.Code == "AccessDenied"
}

// unlisted reports whether the server knows no listing of versions.
func (f *RequestError) unlisted() bool {
	return f.Status == http.StatusNotImplemented || f.Status == http.StatusMethodNotAllowed || f.Code == "NotImplemented"
}

// again lists the codes of refusals that another try may not meet.
var again = []string{
	"RequestTimeout", "InternalError", "SlowDown", "SlowDownRead", "SlowDownWrite", "ServiceUnavailable", "Throttling",
	"OperationAborted", "ConditionalRequestConflict",
	// The body was damaged on its way.
	"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody",
}

// transient reports whether the same request may succeed in a moment.
func (f *RequestError) transient() bool {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(f.Err, &untrusted):
		return false
	case slices.Contains(again, f.Code):
		return true
	case f.Status == 0:
		return f.Code == ""
	case f.Status == http.StatusInsufficientStorage, f.Status == http.StatusNotImplemented:
		return false
	}
	return f.Status >= 500 || f.Status < 300 ||
		f.Status == http.StatusTooManyRequests || f.Status == http.StatusRequestTimeout || f.Status == http.StatusConflict
}

// unsure reports whether a write may have been done all the same.
func (f *RequestError) unsure() bool {
	return f.Status < 300 || f.Status >= 500 || f.Status == http.StatusRequestTimeout
}

// full lists the codes of a server that has no room.
var full = []string{
	"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientStorage", "InsufficientCapacity",
	"ServiceQuotaExceededException", "StorageFull",
}

// outside turns an error into what leaves the package: a full bucket is
// out_of_space, the rest is raw.
func outside(err error) error {
	var f *RequestError
	if errors.As(err, &f) && (f.Status == http.StatusInsufficientStorage || slices.Contains(full, f.Code)) {
		return &tiering.Error{Tier: tiering.Cold, Code: tiering.CodeOutOfSpace, Detail: "the bucket is full or over its quota", Err: err}
	}
	return err
}

// transient reports whether an error is a RequestError that may pass.
func transient(err error) bool {
	var f *RequestError
	return errors.As(err, &f) && f.transient()
}

// cut is what came back when it is shorter than asked for.
func cut(format string, args ...any) *RequestError {
	return &RequestError{Err: fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), io.ErrUnexpectedEOF)}
}

// lied is an answer of success that is none.
func lied(format string, args ...any) *RequestError {
	return &RequestError{Status: http.StatusOK, Message: fmt.Sprintf(format, args...)}
}

// NoCredentials says that a client found none to sign requests with.
func NoCredentials(err error) error {
	return &tiering.Error{
		Code:   tiering.CodeInvalid,
		Detail: "s3: no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of the shared files with profile=NAME",
		Err:    err,
	}
}
