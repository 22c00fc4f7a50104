"""Keys and JSON Web Tokens (RFC 7519), made with the Python package cryptography. Arguments: DIRECTORY ALGORITHM CLAIMS.

Writes DIRECTORY/jwks.json and DIRECTORY/ALGORITHM.pem once, and prints a token of the algorithm with these claims (JSON).
ALGORITHM `confused` signs as HS256 with the text of ES256.pem as the secret, and `none` signs nothing.
"""
import base64, hashlib, hmac, json, os, pickle, sys

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

directory, algorithm, claims = sys.argv[1:]


def text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value, length=None):
    return text(value.to_bytes(length or (value.bit_length() + 7) // 8, "big"))


private = serialization.PrivateFormat.PKCS8
saved = os.path.join(directory, "private")
if not os.path.exists(saved):
    keys = {"RS256": rsa.generate_private_key(65537, 2048), "ES256": ec.generate_private_key(ec.SECP256R1()),
            "ES384": ec.generate_private_key(ec.SECP384R1()), "EdDSA": ed25519.Ed25519PrivateKey.generate()}
    secret = os.urandom(64)
    jwks = [{"kty": "oct", "kid": "HS256", "k": text(secret)}]
    for name, key in keys.items():
        public = key.public_key()
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        open(os.path.join(directory, name + ".pem"), "wb").write(pem)
        if name == "RS256":
            numbers = public.public_numbers()
            jwks.append({"kty": "RSA", "kid": name, "n": number(numbers.n), "e": number(numbers.e)})
        elif name == "EdDSA":
            raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            jwks.append({"kty": "OKP", "crv": "Ed25519", "kid": name, "x": text(raw)})
        else:
            numbers, length = public.public_numbers(), 32 if name == "ES256" else 48
            jwks.append({"kty": "EC", "crv": "P-" + name[2:], "kid": name, "alg": name,
                         "x": number(numbers.x, length), "y": number(numbers.y, length)})
    json.dump({"keys": jwks}, open(os.path.join(directory, "jwks.json"), "w"))
    os.chmod(os.path.join(directory, "jwks.json"), 0o600)
    encoded = {name: key.private_bytes(serialization.Encoding.DER, private, serialization.NoEncryption())
               for name, key in keys.items()}
    pickle.dump((secret, encoded), open(saved, "wb"))
secret, encoded = pickle.load(open(saved, "rb"))


def sign(message):
    if algorithm == "none":
        return b""
    if algorithm == "confused":
        return hmac.digest(open(os.path.join(directory, "ES256.pem"), "rb").read(), message, "sha256")
    if algorithm.startswith("HS"):
        return hmac.digest(secret, message, "sha" + algorithm[2:])
    family = "RS256" if algorithm[:2] in ("RS", "PS") else algorithm
    key = serialization.load_der_private_key(encoded[family], None)
    if algorithm == "EdDSA":
        return key.sign(message)
    digest = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}[algorithm[2:]]()
    if algorithm.startswith("PS"):
        return key.sign(message, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)
    if algorithm.startswith("RS"):
        return key.sign(message, padding.PKCS1v15(), digest)
    r, s = decode_dss_signature(key.sign(message, ec.ECDSA(digest)))
    length = 32 if algorithm == "ES256" else 48
    return r.to_bytes(length, "big") + s.to_bytes(length, "big")


head = {"alg": "HS256" if algorithm == "confused" else algorithm, "typ": "JWT"}
message = text(json.dumps(head).encode()) + "." + text(claims.encode())
print(message + "." + text(sign(message.encode())))
