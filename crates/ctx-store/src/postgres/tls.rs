//! TLS: which certificates of a server are accepted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::Error;

use super::address::invalid;

/// What is checked of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    Nothing,
    Issuer,
    IssuerAndName,
}

/// How a connection is secured.
pub(super) fn config(check: Check, roots: Option<&Path>) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let issuers =
        if check == Check::Nothing { None } else { Some(issuers(roots, provider.clone())?) };
    let verifier =
        Verifier { issuers, name: check == Check::IssuerAndName, provider: provider.clone() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Internal(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// The verifier of certificates that the root certificates in a file have issued.
fn issuers(
    file: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".postgresql/root.crt"));
    let file = file.map(Path::to_owned).or_else(home).unwrap_or_default();
    let unusable =
        |e: &dyn std::fmt::Display| invalid(&format!("sslrootcert {}: {e}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&file).map_err(|e| unusable(&e))? {
        let certificate = certificate.map_err(|e| unusable(&e))?;
        roots.add(certificate).map_err(|e| unusable(&e))?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|e| unusable(&e))
}

#[derive(Debug)]
struct Verifier {
    /// `None`: any certificate is accepted.
    issuers: Option<Arc<WebPkiServerVerifier>>,
    /// Whether the certificate must name the host.
    name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(issuers) = &self.issuers else { return Ok(ServerCertVerified::assertion()) };
        let verified =
            issuers.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) if !self.name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
