package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Error is what went wrong with a cluster, and what the user can do.
type Error struct {
	Op   string // "apply deployment shop/cart"
	Err  error
	hint string
}

func (e *Error) Error() string { return e.Op + ": " + message(e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Hint says what the user can do; empty where nothing better is known than the message.
func (e *Error) Hint() string { return e.hint }

// message shortens what the libraries say: a failed request repeats its method and URL, which Op says in words.
func message(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}

// explained wraps an error of client-go with the operation and a hint.
func (c *Cluster) explained(op string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &Error{op, err, c.hintFor(err)}
}

func (c *Cluster) hintFor(err error) string {
	name := ""
	if c.context != "" {
		name = " --context " + c.context
	}
	for _, k := range []struct {
		is   bool
		hint string
	}{
		{apierrors.IsUnauthorized(err), "the credentials have expired or belong to another cluster: log in again, and see who you are with `kubectl" + name + " auth whoami`"},
		{IsQuota(err), "the namespace's ResourceQuota does not allow for it: `kubectl" + name + " describe quota --all-namespaces`"},
		{apierrors.IsForbidden(err), "`tare cluster rbac` prints the rights that tare needs, for whoever may grant them"},
		{meta.IsNoMatchError(err), "the cluster does not know this kind: is what defines it (a CustomResourceDefinition) installed?"},
		{isCertificate(err), "the kubeconfig's certificate authority is not the one that signed the server's certificate: is the kubeconfig of an earlier cluster of that name?"},
		{isUnreachable(err), "does the cluster run, and can " + c.Server() + " be reached from here? try `kubectl" + name + " version`"},
	} {
		if k.is {
			return k.hint
		}
	}
	return ""
}

// IsQuota says that a ResourceQuota was exceeded; the API server calls that forbidden, as it does a missing right.
func IsQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// IsForbidden says that a right is missing.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) && !IsQuota(err) }

func isCertificate(err error) bool {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &unknown) || errors.As(err, &host)
}

func isUnreachable(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) || errors.As(err, &dns) || errors.Is(err, context.DeadlineExceeded)
}
