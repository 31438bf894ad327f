package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// Error is a failed operation on a cluster, with a hint where one is known.
type Error struct {
	hint.Hinted
	Op string // "apply deployment shop/cart"
}

func (e *Error) Error() string { return e.Op + ": " + message(e.Err) }

// failedTo returns an [Error] with a hint.
func failedTo(op string, err error, text string) error {
	return &Error{Hinted: hint.Hinted{Err: err, Text: text}, Op: op}
}

// message shortens a library's error: a failed request repeats its method and URL, which Op names already.
func message(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}

// HintPermissions is the hint of errors that a missing RBAC permission causes.
const HintPermissions = "`tare cluster rbac` prints the RBAC permissions that tare needs, for a cluster administrator to grant"

// hint is the action that cures err, empty if none is known.
func (r requests) hint(err error) string {
	name := ""
	if r.context != "" {
		name = " --context " + r.context
	}
	for _, k := range []struct {
		is   bool
		hint string
	}{
		{apierrors.IsUnauthorized(err), "the credentials have expired or belong to another cluster: log in again, and check them with `kubectl" + name + " auth whoami`"},
		{isPlugin(err), "log in again; if a run was interrupted, then `tare cluster cleanup" + name + "`"},
		{isRefused(err), hints[kindOf("", err.Error())]},
		{apierrors.IsForbidden(err), HintPermissions},
		{meta.IsNoMatchError(err), "the cluster has no such kind: install its CustomResourceDefinition first"},
		{isCertificate(err), "the kubeconfig's certificate authority did not sign the server's certificate: it may belong to an earlier cluster of that name"},
		{isUnreachable(err), "does the cluster run, and can " + r.server + " be reached from here? try `kubectl" + name + " version`"},
	} {
		if k.is {
			return k.hint
		}
	}
	return ""
}

// isRefused reports whether an admission plugin refused an object.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) && slices.Contains(refusals, kindOf("", err.Error()))
}

// IsForbidden reports whether an RBAC permission is missing.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) && !isRefused(err) }

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
