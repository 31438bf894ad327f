package http3

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/target"
)

// noProtocol is the crypto error of the alert no_application_protocol (RFC 9001 section 4.8).
const noProtocol = 0x100 + 120

// gracefulShutdown is how quic-go's error of a request after a GOAWAY ends. Its type is not exported.
const gracefulShutdown = "connection in graceful shutdown"

// failureOf classifies an error of a connection or request.
func failureOf(err error) load.Failure {
	var (
		verify    *tls.CertificateVerificationError
		transport *quic.TransportError
		app       *quic.ApplicationError
		reset     *quic.StreamError
		status    *http3.Error
		idle      *quic.IdleTimeoutError
		handshake *quic.HandshakeTimeoutError
		stateless *quic.StatelessResetError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, &handshake):
		return load.FailureTimeout
	case isGoAway(err):
		return load.FailureGoAway
	case errors.As(err, &verify):
		return load.FailureCertificate
	case errors.As(err, &idle), errors.As(err, &stateless):
		return load.FailureQUICLost
	case errors.As(err, &transport):
		return transportFailure(transport)
	case errors.As(err, &status) && !status.Remote:
		return load.FailureHTTP3
	case errors.As(err, &app):
		return load.FailureReset
	case errors.As(err, &status) && status.ErrorCode == http3.ErrCodeRequestRejected:
		return load.FailureStreamRefused
	case errors.As(err, &reset), errors.As(err, &status):
		return load.FailureStreamReset
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return load.FailureHalfResponse
	case errors.Is(err, net.ErrClosed):
		return load.FailureReset
	}
	if k := target.NetFailure(err); k != load.FailureOther {
		return k
	}
	return load.FailureHTTP3
}

func transportFailure(e *quic.TransportError) load.Failure {
	switch {
	case e.ErrorCode == noProtocol:
		return load.FailureALPN
	case e.ErrorCode.IsCryptoError():
		return load.FailureTLS
	case e.ErrorCode == quic.ConnectionRefused:
		return load.FailureRefused
	}
	return load.FailureHTTP3
}

// isUnprocessed reports whether the server has not acted on the request (RFC 9114 sections 5.2 and 8.1).
func isUnprocessed(err error) bool {
	var status *http3.Error
	return errors.As(err, &status) && status.Remote && status.ErrorCode == http3.ErrCodeRequestRejected || strings.HasSuffix(err.Error(), gracefulShutdown)
}

// isGoAway reports whether the server ends the connection in an orderly way.
func isGoAway(err error) bool {
	var app *quic.ApplicationError
	return strings.HasSuffix(err.Error(), gracefulShutdown) ||
		errors.As(err, &app) && app.Remote && http3.ErrCode(app.ErrorCode) == http3.ErrCodeNoError
}
