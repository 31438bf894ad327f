package target

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/tare-mesh/tare/internal/load"
)

// NetFailure names an error of package net.
func NetFailure(err error) load.Failure {
	if err == nil {
		return load.FailureNone
	}
	for _, known := range []struct {
		err  error
		kind load.Failure
	}{
		{os.ErrDeadlineExceeded, load.FailureTimeout},
		{context.DeadlineExceeded, load.FailureTimeout},
		{syscall.ECONNREFUSED, load.FailureRefused},
		{syscall.ENOENT, load.FailureRefused},
		{syscall.ECONNRESET, load.FailureReset},
		{syscall.EPIPE, load.FailureReset},
		{syscall.ECONNABORTED, load.FailureReset},
		{syscall.EMFILE, load.FailureNoDescriptors},
		{syscall.ENFILE, load.FailureNoDescriptors},
		{syscall.EADDRNOTAVAIL, load.FailureNoPorts},
		{syscall.ENETUNREACH, load.FailureUnreachable},
		{syscall.EHOSTUNREACH, load.FailureUnreachable},
		{io.EOF, load.FailureClosedEarly},
		{io.ErrUnexpectedEOF, load.FailureHalfResponse},
	} {
		if errors.Is(err, known.err) {
			return known.kind
		}
	}
	// An alert. In TLS 1.3 the refusal of a client's certificate comes after the handshake.
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" {
		return load.FailureTLS
	}
	return load.FailureOther
}

// noProtocol ends the error of an alert no_application_protocol, whose type
// crypto/tls keeps to itself.
const noProtocol = "tls: no application protocol"

// TLSFailure classifies the error of a handshake.
func TLSFailure(err error) load.Failure {
	var verify *tls.CertificateVerificationError
	if errors.As(err, &verify) {
		return load.FailureCertificate
	}
	if strings.HasSuffix(err.Error(), noProtocol) {
		return load.FailureALPN
	}
	if k := NetFailure(err); k != load.FailureOther {
		return k
	}
	return load.FailureTLS
}
